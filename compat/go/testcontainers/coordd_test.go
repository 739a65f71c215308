// Package testcontainers_test shows coordd's image to the tests of programs that use Testcontainers, as
// docs/recipes.md has it. It is a module of its own, so that Testcontainers enters no other.
package testcontainers_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
)

// image is the one to test.
var image = cmp.Or(os.Getenv("COORDD_STANDIN_IMAGE"), "coordd-standin")

// startCoordd starts a stand-in in a container, and returns what ydb.Open takes and where it takes orders.
func startCoordd(ctx context.Context, t *testing.T) (connectionString, orders string) {
	t.Helper()
	coordd, err := testcontainers.Run(ctx, image,
		// Docker picks free ports of the host. Clients get the address that they have called, so do not set
		// COORDD_ADVERTISE.
		testcontainers.WithExposedPorts("2136/tcp", "8765/tcp"),
		// The password is public: publish the ports on the loopback interface only.
		testcontainers.WithHostConfigModifier(func(host *container.HostConfig) {
			here := []network.PortBinding{{HostIP: netip.MustParseAddr("127.0.0.1")}}
			host.PortBindings = network.PortMap{
				network.MustParsePort("2136/tcp"): here, network.MustParsePort("8765/tcp"): here,
			}
		}),
		testcontainers.WithWaitStrategy(wait.ForHTTP("/readyz").WithPort("8765/tcp")),
	)
	testcontainers.CleanupContainer(t, coordd)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := coordd.PortEndpoint(ctx, "2136/tcp", "grpc")
	if err != nil {
		t.Fatal(err)
	}
	orders, err = coordd.PortEndpoint(ctx, "8765/tcp", "http")
	if err != nil {
		t.Fatal(err)
	}
	return clients + "/local", orders
}

// order has something go wrong; docs/faults.md lists what.
func order(ctx context.Context, t *testing.T, orders, json string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, orders+"/faults",
		strings.NewReader(json))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Coordd-Standin", "1")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", json, answer.Status)
	}
}

// TestInContainer takes a lock, and another session gets it when the first one has expired.
func TestInContainer(t *testing.T) {
	if os.Getenv("COORDD_STANDIN_IMAGE") == "" {
		testcontainers.SkipIfProviderIsNotHealthy(t)
	}
	ctx := t.Context()
	connectionString, orders := startCoordd(ctx, t)
	db, err := ydb.Open(ctx, connectionString)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.WithoutCancel(ctx))
	if err := db.Coordination().CreateNode(ctx, "/local/locks", coordination.NodeConfig{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		session, err := db.Coordination().Session(ctx, "/local/locks")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.AcquireSemaphore(ctx, "lock", coordination.Exclusive,
			options.WithEphemeral(true)); err != nil {
			t.Fatal(err)
		}
		order(ctx, t, orders, fmt.Sprintf(`{"do":"expire-session","node":"/local/locks","session":"%d"}`,
			session.SessionID()))
	}
}
