// Package auth finds out who calls: by a token of a file, a login token or a client certificate. It hashes
// the passwords of those who log in, and signs their tokens. What a caller may do is decided elsewhere, by
// name.
package auth
