package testserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// The ports of servers. They lie below those that operating systems give to outgoing connections: such a connection
// might otherwise be made from a server's address before it listens, or while it is being restarted.
const (
	firstPort = 10_240
	endPort   = 32_768
	// blockPorts is the number of ports in a block. A process reserves a block by listening on its first port until
	// it ends. Tests of another process could otherwise take an address between its choice and the start of its
	// server, or while that is being restarted.
	blockPorts = 128
)

// ports are those that this process has reserved.
var ports struct {
	mutex     sync.Mutex
	next, end int // in the last block
	held      []net.Listener
}

// listen listens on an address of its own. As long as this process lives, no other process gets the address from
// this package, and this one gets it again only after thousands of others.
func listen() (net.Listener, error) {
	ports.mutex.Lock()
	defer ports.mutex.Unlock()
	for {
		if ports.next == ports.end {
			if err := takeBlock(); err != nil {
				return nil, err
			}
		}
		port := ports.next
		ports.next++
		if l, err := listenOn(port); err == nil { // otherwise a foreign program listens on it
			return l, nil
		}
	}
}

func listenOn(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
}

// takeBlock reserves another block. The mutex is held.
func takeBlock() error {
	const blocks = (endPort - firstPort) / blockPorts
	var failures []error
	for _, block := range rand.Perm(blocks) {
		first := firstPort + block*blockPorts
		l, err := listenOn(first)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		ports.held = append(ports.held, l)
		useBlock(first)
		return nil
	}
	if len(ports.held) == 0 {
		return errors.Join(failures...)
	}
	useBlock(ports.held[rand.IntN(len(ports.held))].Addr().(*net.TCPAddr).Port) // once more
	return nil
}

// useBlock makes the next addresses come from a block of this process. The mutex is held.
func useBlock(first int) { ports.next, ports.end = first+1, first+blockPorts }

// FreeAddresses returns n different addresses on loopback, on which nobody listens.
func FreeAddresses(n int) ([]string, error) {
	var addresses []string
	for range n {
		l, err := listen()
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, l.Addr().String())
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}

// Addresses is FreeAddresses for a test, which fails without them.
func Addresses(t testing.TB, n int) []string {
	t.Helper()
	addresses, err := FreeAddresses(n)
	if err != nil {
		t.Fatal(err)
	}
	return addresses
}

// Address returns one address on loopback, on which nobody listens.
func Address(t testing.TB) string {
	t.Helper()
	return Addresses(t, 1)[0]
}
