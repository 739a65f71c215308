// Package sessions serves the Session streams of clients. A Session has one goroutine that reads. Replies are written by
// the writers, a few goroutines shared by all streams, so that an idle stream costs no writer. Where a client may not
// have read what it was sent (progress.go), others do that, so that it holds up nobody.
package sessions
