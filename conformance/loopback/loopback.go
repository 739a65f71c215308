// Package loopback finds addresses for the servers of a test.
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports from which the addresses come. They lie below those that operating systems give to outgoing
// connections, which might otherwise be made from a server's address before it listens, or while it is being
// restarted. Those from endPort to 32,767 are for the SDKs' tests.
const (
	firstPort = 10_240
	endPort   = 30_720
	// blockPorts is how many ports a process has at a time, the block's first one included: by listening on
	// that it keeps the block, until it ends, from the tests of other processes. They could take an address
	// between its choice and the start of its server, or while that is being restarted.
	blockPorts = 128
)

// ports are those of this process.
var ports struct {
	mutex     sync.Mutex
	next, end int // of the last block
	held      []net.Listener
}

// Listen listens on an address of its own. As long as the process lives, no test of another process that asks
// here gets it; one of this process does only after thousands of others. Whoever needs the address for a
// server of another process closes the listener right before that starts.
func Listen() (net.Listener, error) {
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
		if l, err := listenOn(port); err == nil { // else somebody has it who does not ask here
			return l, nil
		}
	}
}

func listenOn(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
}

// takeBlock gives this process another block. The mutex is held.
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

// useBlock has the next addresses come from a block of this process. The mutex is held.
func useBlock(first int) { ports.next, ports.end = first+1, first+blockPorts }

// Addresses returns n different addresses on which nobody listens.
func Addresses(n int) ([]string, error) {
	var addresses []string
	for range n {
		l, err := Listen()
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
