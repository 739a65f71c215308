// Package abuse attacks a server. Its test runs the built binary under a limit of memory and of descriptors,
// with authentication required, and has each attack go on beside a good client: the server lives, the good
// client's session lives throughout, and the memory comes back under the limit. `make abuse-test` gives each
// attack longer.
package abuse
