package standin_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-sdk/v3"

	"github.com/coordd/coordd/compat/go/examples/registry"
	"github.com/coordd/coordd/compat/go/examples/sessions"
	"github.com/coordd/coordd/server/standin"
	"github.com/coordd/coordd/server/standin/faults"
)

const (
	services = "/local/services" // the node of the registry
	shop     = "shop"            // a service
)

// market has services, and a watcher of them.
type market struct {
	*cast
	timeout time.Duration

	mutex sync.Mutex
	seen  [][]string
}

func newMarket(t *testing.T, s *standin.Server, timeout time.Duration) *market {
	t.Helper()
	m := &market{cast: onStage(t, s), timeout: timeout}
	m.start(m.open(), func(r *registry.Registry) error {
		return r.Watch(m.scene, shop, func(endpoints []string) {
			m.mutex.Lock()
			defer m.mutex.Unlock()
			m.seen = append(m.seen, endpoints)
		})
	})
	m.sees() // nothing, so that it is there before the others
	return m
}

// start has somebody use the registry until the end of the test.
func (m *market) start(db *ydb.Driver, use func(*registry.Registry) error) {
	r := &registry.Registry{Sessions: sessions.Keeper{DB: db, Node: services, Create: true,
		Timeout: m.timeout}}
	m.running.Go(func() {
		if err := use(r); !errors.Is(err, context.Canceled) {
			m.t.Errorf("%v", err)
		}
	})
}

// announce has a service be there.
func (m *market) announce(db *ydb.Driver, endpoint string) {
	m.start(db, func(r *registry.Registry) error { return r.Announce(m.scene, shop, endpoint) })
}

// sees wants the watcher to see these endpoints in the end.
func (m *market) sees(want ...string) {
	m.t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		seen := m.all()
		if n := len(seen); n > 0 && slices.Equal(seen[n-1], want) {
			return
		}
		if time.Now().After(late) {
			m.t.Fatalf("it sees %q, and %q is not the last\n%s", seen, want, m.s.Dump())
		}
	}
}

// all returns everything that the watcher has seen.
func (m *market) all() [][]string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return slices.Clone(m.seen)
}

// sessions are that of who has announced an endpoint, and that of the watcher.
func (m *market) sessions(endpoint string) []uint64 {
	m.t.Helper()
	var found []uint64
	owners := m.s.Owners(services, shop)
	for _, o := range owners {
		if string(o.Data) == endpoint {
			found = append(found, o.Session)
		}
	}
	for _, session := range m.s.Sessions(services) {
		if !slices.ContainsFunc(owners, func(o standin.Owner) bool { return o.Session == session.ID }) {
			found = append(found, session.ID)
		}
	}
	return found
}

// TestRegistry is a plain test: services come, and one goes.
func TestRegistry(t *testing.T) {
	t.Parallel()
	m := newMarket(t, standin.Start(t, standin.Patience(patience)), unhurried)
	db := m.open()
	m.announce(db, "a:80")
	m.sees("a:80")
	ctx, leave := context.WithCancel(t.Context())
	m.start(db, func(r *registry.Registry) error { return r.Announce(ctx, shop, "b:80") })
	m.sees("a:80", "b:80")
	leave()
	m.sees("a:80")
}

// TestDeadServiceIsGone: a service that dies silently is listed for its session timeout, and no longer.
func TestDeadServiceIsGone(t *testing.T) {
	t.Parallel()
	s := standin.Start(t, standin.FakeTime(), standin.Patience(patience), standin.PongPatience(patience))
	m := newMarket(t, s, unhurried)
	m.announce(m.open(), "a:80")
	m.announce(m.open(), "b:80")
	m.sees("a:80", "b:80")
	s.DelayNext(faults.Start, 1000, time.Hour) // it does not come back
	s.DropStreams(faults.Filter{Session: m.sessions("b:80")[0]}, faults.Clean)
	s.Advance(unhurried - time.Second)
	s.AwaitOwners(services, shop, 2)
	s.Advance(time.Second)
	s.AwaitOwners(services, shop, 1)
	m.sees("a:80")
}

// TestRegistryThroughFaults: whatever happens, all services are seen in the end. Where nobody lost anything,
// none is ever missing.
func TestRegistryThroughFaults(t *testing.T) {
	missing := map[string]bool{"expire-session": true, "drop-streams how=silence": true,
		"drop-streams how=black-hole": true, "drop-node": true, "restart empty=true": true, "partition": true,
		"fail-next describe": true}
	for _, tr := range trials {
		t.Run(tr.name(), func(t *testing.T) {
			t.Parallel()
			s := tr.begin(t)
			m := newMarket(t, s, tr.timeout)
			m.announce(m.open(), "a:80")
			other := m.open()
			m.announce(other, "b:80")
			m.sees("a:80", "b:80")
			before := len(m.all())
			victims := m.sessions("a:80")
			if tr.late != nil {
				tr.late(s, services, victims...)
			}
			m.announce(other, "c:80")
			switch tr.fault {
			case "full-disk":
				s.Reset() // or c has no place
			case "drop-streams how=black-hole":
				s.AwaitNoSession(services, victims[0])
				s.Reset()
			}
			m.sees("a:80", "b:80", "c:80")
			for _, seen := range m.all()[before:] {
				whole := slices.Contains(seen, "a:80") && slices.Contains(seen, "b:80")
				if !whole && !missing[tr.name()] {
					t.Errorf("seen were %q", m.all())
				}
			}
		})
	}
}
