// Package loopback finds addresses for the servers of a test.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// The ports from which the addresses come. They lie below those that operating systems give to outgoing connections, which
// might otherwise be made from a server's address before it listens, or while it is being restarted.
const (
	firstPort = 10_240
	endPort   = 32_768
)

// Listen listens on an address of its own. Whoever needs the address for a server of another process closes the listener
// right before that starts.
func Listen() (net.Listener, error) {
	const tries = 1000 // it fails where another test listens already
	var err error
	for range tries {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", firstPort+rand.IntN(endPort-firstPort))); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// Addresses returns n different addresses on which nobody listens.
func Addresses(n int) ([]string, error) {
	var addresses []string
	for range n {
		l, err := Listen()
		if err != nil {
			return nil, err
		}
		defer l.Close() // none comes twice
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}
