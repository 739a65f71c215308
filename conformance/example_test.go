package conformance_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/server/standin"
)

const transcript = `# Whoever asks for a lock that another session has is told so, and gets it later.
# rule: coordination §3.4 when

s1: start
s2: start
s1: acquire lock count=max ephemeral
s2: acquire lock count=max ephemeral timeout=inf
----
s1 <- acquired
s2 <- pending

s1: release lock
----
s1 <- released
s2 <- acquired
`

// A transcript is replayed on a server, which may be any that speaks the protocol.
func ExampleRun() {
	ctx := context.Background()
	server, err := standin.Run(ctx)
	if err != nil {
		panic(err)
	}
	defer server.Stop()

	address, _, _ := strings.Cut(strings.TrimPrefix(server.ConnectionString(), "grpc://"), "/")
	endpoint, err := conformance.Dial(ctx, conformance.EndpointConfig{Address: address, Database: "/local"})
	if err != nil {
		panic(err)
	}
	script, err := conformance.Parse("lock", transcript)
	if err != nil {
		panic(err)
	}
	outcome, err := conformance.Run(ctx, endpoint, script)
	if err != nil {
		panic(err)
	}
	fmt.Printf("differences: %q\n", outcome.Diff)
	if err := endpoint.Close(ctx); err != nil {
		panic(err)
	}
	// Output:
	// differences: ""
}
