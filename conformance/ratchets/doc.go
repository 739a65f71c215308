// Package ratchets bounds the size of this repository. Its test measures what ratchets.txt lists and fails when
// a number has grown, or has fallen without being written down.
package ratchets
