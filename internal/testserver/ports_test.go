package testserver

import (
	"net"
	"strconv"
	"testing"
)

func TestAddresses(t *testing.T) {
	seen := make(map[string]bool)
	for _, address := range Addresses(t, 3*blockPorts) {
		host, port, err := net.SplitHostPort(address)
		number, _ := strconv.Atoi(port)
		if err != nil || host != "127.0.0.1" || number < firstPort || number >= endPort || seen[address] {
			t.Errorf("got %s, %v", address, err)
		}
		seen[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("somebody listens on %s: %v", address, err)
			continue
		}
		_ = l.Close()
	}
}
