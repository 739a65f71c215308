package console_test

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"

	"github.com/coordd/coordd/internal/hooks"
	"github.com/coordd/coordd/internal/testserver"
	"github.com/coordd/coordd/raftstore"
	coordd "github.com/coordd/coordd/server"
)

// slowable is a server in this process whose writes to the log take longer by pause.
type slowable struct {
	*coordd.Server
	pause atomic.Int64
}

// startSlowable starts a cluster of such servers with consoles.
func startSlowable(t *testing.T, names ...string) []*slowable {
	t.Helper()
	chromium(t)
	servers, initial := make([]*slowable, len(names)), make(map[string]string)
	addresses, folder := testserver.Addresses(t, 3*len(names)), t.TempDir()
	for i, name := range names {
		initial[name] = addresses[3*i]
	}
	started := make(chan error)
	for i, name := range names {
		s := &slowable{}
		servers[i] = s
		config := coordd.Config{Listen: addresses[3*i+1], Database: "/local", DataDir: filepath.Join(folder, name),
			LoopbackAdmin: true, HTTP: coordd.HTTP{Listen: addresses[3*i+2], Console: coordd.ConsoleRead},
			Cluster: raftstore.Cluster{Name: name, ListenPeer: initial[name], Initial: maps.Clone(initial)}}
		go func() (err error) {
			defer func() { started <- err }()
			s.Server, err = coordd.StartWith(context.Background(), config, hooks.Hooks{
				Log: func(log *raftstore.Config) {
					log.Slow = func(step string) {
						if step == "write log" {
							time.Sleep(time.Duration(s.pause.Load()))
						}
					}
				}})
			return err
		}()
	}
	for range names {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, s := range servers {
			s.stop(t)
		}
	})
	return servers
}

func (s *slowable) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// clients returns the server as clients see it.
func (s *slowable) clients(t *testing.T) *server {
	t.Helper()
	return &server{Server: &testserver.Server{Address: s.Addr().String(),
		Config: testserver.Config{Program: testserver.Binary(t)}}}
}

// A request whose entry is written slowly on the leader, and more slowly on the others, is shown with its stages and
// its cause. Its row stays under the pointer, and a server's requests are missing while it is away.
func TestSlow(t *testing.T) {
	t.Parallel()
	servers := startSlowable(t, "a", "b", "c")
	servers[0].clients(t).command(t, "node", "create", node)
	p := newPage(t)
	p.open(servers[0].ConsoleLink())
	p.visit("#/slow?over=minute&server=b")
	p.awaitText(".empty", "No request in the last minute.")
	p.click("Show the last hour of all servers")
	p.awaitText(".empty", "A program that takes a lock makes some")

	const row = "[...document.querySelectorAll('.slow tbody tr')].find((row) => row.textContent.includes(%q))"
	cause := func(name string) (text string) {
		t.Helper()
		p.await(fmt.Sprintf(row+" !== undefined", name))
		p.eval(fmt.Sprintf(row+".querySelector('.end').textContent", name), &text)
		return text
	}
	const written = "ms in the write of the log"
	slowed, leader := "", ""
	for try, text := 0, ""; !strings.Contains(text, written); try++ { // another server may have come to lead meanwhile
		if try == 20 {
			t.Fatalf("after %d tries the cause is %q", try, text)
		}
		slowed = fmt.Sprint("nightly-report-", try)
		leads := servers[0]
		for i, s := range servers {
			if s.Leads() {
				leads, leader = s, string(rune('a'+i))
			}
		}
		c := leads.clients(t).newSession(t, node, "reporter", time.Minute)
		for _, s := range servers {
			s.pause.Store(int64(400 * time.Millisecond))
		}
		leads.pause.Store(int64(200 * time.Millisecond))
		c.create(1, slowed)
		for _, s := range servers {
			s.pause.Store(0)
		}
		text = cause(slowed)
	}
	p.await(fmt.Sprintf(row+".querySelector('.stages .h-data').title.startsWith('write ')", slowed))
	p.await(fmt.Sprintf(row+".querySelector('.at .sub').textContent.trim() === 'server %s'", slowed, leader))
	p.awaitText(".lede", "The slowest took ")

	other := servers[(leader[0]-'a'+1)%3]
	other.clients(t).newSession(t, node, "other", time.Minute).create(1, "evil\u202egnp.exe")
	cause(`evil\u202egnp.exe`)
	p.looks("slow")
	p.click(leader)
	p.await("location.hash === '#/slow?server=" + leader + "'")
	p.await("document.querySelector('.slow')?.textContent.includes('evil') === false")
	p.click("All servers")
	cause(`evil\u202egnp.exe`)

	const names = "[...document.querySelectorAll('.slow .w')].map((name) => name.textContent.trim()).join()"
	var before string
	var at struct{ X, Y float64 }
	p.eval("document.querySelector('.slow tbody tr').getBoundingClientRect().toJSON()", &at)
	p.run(input.DispatchMouseEvent(input.MouseMoved, at.X+20, at.Y+20).WithPointerType(input.Mouse))
	p.eval(names, &before)
	servers[0].clients(t).newSession(t, node, "late", time.Minute).create(1, "late")
	p.awaitText(".moved", "change")
	p.await(names + " === " + jsString(before))
	p.click("1 change")
	cause("late")

	for _, status := range []string{"503", "504", "500"} {
		p.expect(status) // of calls while no server leads
	}
	servers[1].stop(t)
	p.awaitText("main", "server b does not answer: its requests are missing.")
}
