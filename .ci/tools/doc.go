// Package tools holds the programs that check and generate code in this
// repository, pinned by version. They are in a module of their own so that
// nothing they need becomes a dependency of the server.
package tools
