package console_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coordd/coordd/internal/testserver"
)

// startServers starts a cluster whose servers have consoles that may act.
func startServers(t *testing.T, names ...string) []*server {
	t.Helper()
	chromium(t)
	servers := make([]*server, len(names))
	for i, s := range testserver.NewCluster(t, names) {
		web := testserver.Address(t)
		s.Config.Args = append(s.Config.Args, "--listen-http", web, "--console", "write")
		servers[i] = &server{s, "http://" + web}
		s.Begin()
	}
	for _, s := range servers {
		s.Await()
	}
	return servers
}

// A page of one server goes on while the others lead in turn, and shows it: a leader that dies and its heir, the loss
// of the majority, and its return. The other servers' pages have the same to show.
func TestLeaderLostAndFound(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	servers[0].command(t, "node", "create", node)
	p := newPage(t)
	for _, status := range []string{"503", "504", "500"} {
		p.expect(status) // of calls while no server leads
	}
	p.open(servers[0].link(t))
	p.awaitText(".servers", "leads")
	// The page lists the servers in the order of their ids.
	shown := func(name string) string {
		const list = "[...document.querySelectorAll('.server')]"
		return fmt.Sprintf("%s.find((s) => s.textContent.trim().startsWith(%q))", list, name)
	}
	leads := func() int {
		t.Helper()
		p.await("document.querySelector('.server.leads') !== null")
		var name string
		p.eval("document.querySelector('.server.leads').textContent.trim().split(' ')[0]", &name)
		return slices.IndexFunc(servers, func(s *server) bool { return s.Name == name })
	}
	if leads() == 0 {
		servers[0].own(t, "cluster", "transfer-leader", "b")
		p.await("!" + shown("a") + ".matches('.leads')")
	}
	leader := leads()
	servers[0].newSession(t, node, "holder", time.Minute).acquireNew("before")
	p.awaitText(".list", "before")

	servers[leader].Kill()
	p.await(shown(servers[leader].Name) + ".matches('.away')")
	heir := leads()
	if heir == leader {
		t.Fatalf("%s is dead and leads", servers[leader].Name)
	}
	servers[0].newSession(t, node, "heir", time.Minute).acquireNew("after")
	p.awaitText(".list", "after")
	p.awaitText(".list", "before")

	other := 3 - leader // the third: 0 is the page's
	servers[other].Kill()
	p.visit("#/cluster")
	p.awaitText("main", "No server leads")
	servers[leader].Start()
	p.awaitText(".lede", "leads in term")
	servers[other].Start()
	p.await("document.querySelector('.server.away') === null && document.querySelector('.server.leads') !== null")
	p.visit("#/locks")
	p.awaitText(".list", "after")

	// A browser that goes to another server signs in there.
	second := newPage(t)
	second.open(servers[leader].link(t))
	second.awaitText(".list", "before")
	second.awaitText(".servers", "leads")
}
