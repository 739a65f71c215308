// Package meters counts the calls of clients, the answers to them, refused logins, and panics.
package meters
