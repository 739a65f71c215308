package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
)

// A request whose entry the other servers write late is shown with its stages and its cause. Its row stays under the
// pointer, and a server's requests are missing while it is away.
func TestSlow(t *testing.T) {
	t.Parallel()
	servers := startServers(t, "a", "b", "c")
	servers[0].command(t, "node", "create", node)
	p := newPage(t)
	for _, status := range []string{"503", "504", "500"} {
		p.expect(status) // of calls while no server leads
	}
	p.open(servers[0].link(t))
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
	slowed, leader := "", ""
	for try, text := 0, ""; !strings.Contains(text, "ms until it was committed"); try++ {
		if try == 20 { // each time another server may have come to lead meanwhile
			t.Fatalf("after %d tries the cause is %q", try, text)
		}
		slowed = fmt.Sprint("nightly-report-", try)
		p.await("document.querySelector('.server.leads') !== null")
		p.eval("document.querySelector('.server.leads').textContent.trim().split(' ')[0]", &leader)
		leads := slices.IndexFunc(servers, func(s *server) bool { return s.Name == leader })
		c := servers[leads].newSession(t, node, "reporter", time.Minute)
		for i, s := range servers {
			if i == leads {
				continue
			}
			if err := s.Pause(); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(200*time.Millisecond, func() { _ = s.Resume() })
		}
		c.create(1, slowed)
		text = cause(slowed)
	}
	p.await(fmt.Sprintf(row+".querySelector('.stages .h-acts').title.startsWith('commit ')", slowed))
	p.await(fmt.Sprintf(row+".querySelector('.at .sub').textContent.trim() === 'server %s'", slowed, leader))
	p.awaitText(".lede", "The slowest took ")

	other := servers[(leader[0]-'a'+1)%3]
	other.newSession(t, node, "other", time.Minute).create(1, "evil\u202egnp.exe")
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
	servers[0].newSession(t, node, "late", time.Minute).create(1, "late")
	p.awaitText(".moved", "change")
	p.await(names + " === " + jsString(before))
	p.click("1 change")
	cause("late")

	servers[1].Kill()
	p.awaitText("main", "server b does not answer: its requests are missing.")
}
