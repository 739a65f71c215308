package main

import (
	"net"
	"testing"
	"time"

	"github.com/coordd/coordd/conformance/bench/stub"
)

// TestStubServesTheLoads runs all that is compared with the stub: what is wrong with an answer is the load's
// error.
func TestStubServesTheLoads(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := stub.New()
	defer server.Stop()
	go func() { _ = server.Serve(listener) }()
	ctx, address := t.Context(), listener.Addr().String()
	if err := createNode(ctx, address); err != nil {
		t.Fatal(err)
	}
	const short = 20 * time.Millisecond
	for name, load := range map[string]func() (result, error){
		"W1": func() (result, error) { return runPairs(ctx, address, 4, short) },
		"W2": func() (result, error) { return runHandover(ctx, address, 4, short) },
		"W3": func() (result, error) { return runWatch(ctx, address, 4, 3) },
		"W5": func() (result, error) { return runList(ctx, address, 4, short) },
	} {
		for range 2 { // what the first one leaves behind is not in the second one's way
			if r, err := load(); err != nil || r.steps == 0 {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
	}
}
