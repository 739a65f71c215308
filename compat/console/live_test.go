package console_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// questions counts the answered questions of a tab for changes.
func (p *page) questions() (n int) {
	p.t.Helper()
	p.eval("performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/api/live')).length", &n)
	return n
}

// Of two tabs of a browser one asks for changes, and both show them. The other one takes over when that one is closed.
func TestTabsShareAQuestion(t *testing.T) {
	t.Parallel()
	s, first := signedIn(t)
	s.newSession(t, node, "holder", time.Minute).acquireNew("nightly-report")
	second := first.sibling()
	tabs := []*page{first, second}
	for _, p := range tabs {
		p.open(s.web + "/#/lock" + node + "/nightly-report")
		p.awaitText(".big-who", "holder")
	}
	waiters := 0
	change := func() {
		t.Helper()
		waiters++
		waiter := s.newSession(t, node, fmt.Sprintf("waiter-%d", waiters), time.Minute)
		waiter.acquire("nightly-report", 1, forever)
		for _, p := range tabs {
			p.awaitText(".chip.wait", fmt.Sprintf("%d waiting", waiters))
		}
	}
	for asked := 0; asked < 2; asked = first.questions() + second.questions() {
		if waiters == maxChanges {
			t.Fatalf("after %d changes %d questions were answered", waiters, asked)
		}
		change()
	}
	asking, other := first, second
	if first.questions() == 0 {
		asking, other = second, first
	}
	if n := other.questions(); n != 0 {
		t.Fatalf("both tabs ask: one %d times, the other %d times", asking.questions(), n)
	}
	asking.run(chromedp.Navigate("about:blank"))
	tabs = []*page{other}
	for other.questions() == 0 {
		if waiters == 2*maxChanges {
			t.Fatalf("after %d changes the other tab does not ask", waiters)
		}
		change()
	}
}

const maxChanges = 60
