package conformance

import (
	"testing"

	"github.com/coordd/coordd/internal/testmode"
	"github.com/coordd/coordd/internal/testserver"
)

// TestBinary runs the scripts on the program as users get it, with its own defaults.
func TestBinary(t *testing.T) {
	testmode.WithoutRace(t)
	testmode.Long(t)
	t.Parallel()
	server := testserver.Serve(t, "--in-memory")
	target, err := Dial(t.Context(), EndpointConfig{Address: server.Address, Database: "/local",
		Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	replay(t, target)
	if err := target.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
