package console_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"

	"github.com/coordd/coordd/internal/testserver"
)

const demoNode = "/local/demo"

// standIn starts a coordd-standin, signs a page in by the link in its log, and goes to its view.
func standIn(t *testing.T, args ...string) (*server, *page) {
	t.Helper()
	chromium(t)
	program, err := testserver.StandIn()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Server: &testserver.Server{Address: testserver.Address(t)}, web: "http://" + testserver.Address(t)}
	s.Process = testserver.Launch(t, testserver.Config{Program: program, Env: append(os.Environ(), "HOME="+t.TempDir()),
		Args: append([]string{"--listen", s.Address, "--listen-http", strings.TrimPrefix(s.web, "http://")}, args...)})
	if s.FirstLine() == "" {
		t.Fatal("the stand-in has not started")
	}
	var link []string
	for late := time.Now().Add(patience); link == nil; time.Sleep(10 * time.Millisecond) {
		if link = regexp.MustCompile(`link="?(\S+#key=\w+)`).FindStringSubmatch(s.Logged()); time.Now().After(late) {
			t.Fatal("the log has no link")
		}
	}
	p := newPage(t)
	p.open(link[1])
	p.awaitText("h1", "Locks")
	p.click("Stand-in")
	p.awaitText("h1", "Stand-in")
	return s, p
}

// choose selects an option of the field of a name.
func (p *page) choose(name, option string) {
	p.t.Helper()
	p.await(fmt.Sprintf("[...document.querySelectorAll('select[name=%s] option')].some((o) => o.value === %q)",
		name, option))
	p.eval(fmt.Sprintf("{ const field = document.querySelector('select[name=%s]'); field.value = %q; "+
		"field.dispatchEvent(new Event('change', { bubbles: true })) }", name, option), nil)
}

// A fault that is ordered in the page meets a client, and the page shows what the client sees.
func TestStandInFaults(t *testing.T) {
	t.Parallel()
	s, p := standIn(t, "--demo")
	p.awaitText(".q-scroll", "acquired nightly-report")
	p.awaitText(".q-scroll", "report@batch-")
	p.visit("#/locks")
	p.awaitText(".list", "nightly-report")
	p.awaitText(".list", "connections")
	p.visit("#/standin")
	p.awaitText("h1", "Stand-in")

	c := s.newSession(t, demoNode, "tester", time.Minute)
	c.acquireNew("my-lock")
	id := fmt.Sprint(c.id)
	p.click("fail-next")
	p.choose("kind", "release")
	p.choose("status", "UNAUTHORIZED")
	p.fill("session", id)
	p.click("Order fail-next")
	p.awaitText(".said", "Ordered. Rust: the session ends")
	p.awaitText(".rules .chip.wait", "waits")
	p.awaitText(".lede", "1 fault waits for a request.")
	c.release("my-lock")
	r := c.await(func(r *response) bool { return r.GetReleaseSemaphoreResult() != nil })
	if got := r.GetReleaseSemaphoreResult().GetStatus(); got != Ydb.StatusIds_UNAUTHORIZED {
		t.Errorf("the client got %s", got)
	}
	p.awaitText(".rules .chip", "fired")
	p.awaitText(".q-scroll", "release my-lock ✕ fail-next")
	p.awaitText(".q-scroll", "not released my-lock UNAUTHORIZED")

	p.click("answer-lost") // for a request that never comes
	p.choose("kind", "delete")
	p.fill("session", id)
	p.click("Order answer-lost")
	p.awaitText(".rules .chip.wait", "waits")
	p.click("Take all faults back")
	p.awaitText(".rules .chip.bad", "never fired")
	p.awaitText(".rules .note", "1 fault had met nothing")

	p.click("expire-session")
	p.fill("node", "demo")
	p.fill("session", id)
	p.click("Order expire-session")
	r = c.await(func(r *response) bool { return r.GetFailure() != nil })
	if got := r.GetFailure().GetStatus(); got != Ydb.StatusIds_SESSION_EXPIRED {
		t.Errorf("the client got %s", got)
	}
	p.awaitText(".q-scroll", "failure SESSION_EXPIRED Session has expired")
	p.awaitText(".q-scroll", "expire-session node=demo session="+id)

	gone := s.newSession(t, demoNode, "gone", 10*time.Second) // nobody hears that its client goes, and that it ends
	gone.cut()
	for kind, text := range map[string]string{"q-wait": "session detached", "q-lost": "session expired"} {
		p.await(fmt.Sprintf("[...document.querySelectorAll('.q-scroll g.%s')].some((g) => g.textContent.includes(%q))",
			kind, text))
	}
	p.expect("404")
	p.click("Order expire-session") // again: it is gone
	p.awaitText(".order .problem", "does not exist")

	p.click("Table")
	p.await(`[...document.querySelectorAll('.q-scroll tr')].some((row) => row.cells[1].textContent === 'server' &&
		row.cells[2].textContent === 'tester' && row.textContent.includes('SESSION_EXPIRED'))`)
	p.await("document.querySelectorAll('.q-scroll tbody tr').length <= 200")
}

// The chart follows the messages, but not while the focus is on it.
func TestStandInChartStays(t *testing.T) {
	t.Parallel()
	s, p := standIn(t)
	c := s.newSession(t, s.makeNode(t, p), "tester", time.Minute)
	p.awaitText(".q-scroll", "started")
	p.eval("document.querySelector('.q-scroll').focus()", nil)
	c.acquireNew("my-lock")
	p.awaitText(".moved", "4 new messages")
	p.await("!document.querySelector('.q-scroll').textContent.includes('my-lock')")
	p.eval("document.activeElement.blur()", nil)
	p.awaitText(".q-scroll", "acquired my-lock")
	var recorded string
	p.click("Begin a recording")
	p.awaitText("main", "Under way since")
	p.eval(`window.saved = '';
		URL.createObjectURL = (blob) => { blob.text().then((text) => { window.saved = text }); return '#' };
		HTMLAnchorElement.prototype.click = () => {}`, nil)
	s.newSession(t, demoNode, "recorded", time.Minute).acquireNew("other-lock")
	p.awaitText(".q-scroll", "acquired other-lock")
	p.eval("[...document.querySelectorAll('button')].find((b) => b.textContent.trim() === 'Save the recording')."+
		"dispatchEvent(new MouseEvent('click', { bubbles: true }))", nil)
	p.await("window.saved !== ''")
	p.eval("window.saved", &recorded)
	if !strings.Contains(recorded, "other-lock") || strings.Contains(recorded, "my-lock") {
		t.Errorf("the recording is\n%s", recorded)
	}
}

// makeNode makes demoNode by the fixture in the page.
func (s *server) makeNode(t *testing.T, p *page) string {
	t.Helper()
	p.run(chromedp.SendKeys("textarea[name=fixture]", "demo\n  semaphore \"settings\": 0 of 3, \"v1\"\n",
		chromedp.ByQuery))
	p.click("Load")
	p.awaitText("form.card .note", "Loaded.")
	return demoNode
}

// Where time stands still the page moves it.
func TestStandInTime(t *testing.T) {
	t.Parallel()
	s, p := standIn(t, "--fake-time")
	c := s.newSession(t, s.makeNode(t, p), "tester", 10*time.Second)
	c.acquireNew("my-lock")
	c.cut()
	p.click("+1 s")
	p.awaitText(".elapsed", "1s have passed")
	p.click("+1 min")
	p.awaitText(".elapsed", "1m1s have passed")
	p.awaitText(".q-scroll", fmt.Sprintf("advance d=1m → session expired %d", c.id))
}

// breakDemo orders two faults of a demonstration, and waits until they have met its clients.
func (p *page) breakDemo() {
	p.t.Helper()
	p.awaitText(".q-scroll", "acquired nightly-report")
	p.click("expire-session")
	p.fill("node", "demo")
	p.await("document.querySelector('#known-session option') !== null")
	var session string
	p.eval("document.querySelector('#known-session option').value", &session)
	p.fill("session", session)
	p.click("Order expire-session")
	p.awaitText(".said", "Ordered.")
	p.click("fail-next")
	p.choose("kind", "acquire")
	p.click("Order fail-next") // without a status the browser refuses
	p.choose("status", "NOT_FOUND")
	p.click("Order fail-next")
	p.awaitText(".q-scroll", "✕ fail-next")
}

// The view fits all screens, and axe finds nothing serious in it.
func TestStandInLooks(t *testing.T) {
	t.Parallel()
	_, p := standIn(t, "--demo")
	axe := readAxe(t)
	p.breakDemo()
	for _, width := range []int64{320, 768, 1440, 2560} {
		for _, scheme := range []string{"light", "dark"} {
			p.size(width, 900, scheme)
			name := fmt.Sprintf("standin-%d-%s", width, scheme)
			p.await("document.querySelector('.q-scroll svg[role=img]').clientWidth <= innerWidth")
			var wide bool
			p.eval("document.documentElement.scrollWidth > document.documentElement.clientWidth", &wide)
			if wide {
				t.Errorf("%s is wider than the screen", name)
			}
			if axe != "" && width != 2560 {
				p.check(axe, name)
			}
			p.picture(width, scheme, name)
		}
	}
	p.click("Table")
	if axe != "" {
		p.check(axe, "standin table")
	}
	p.visit("#/limiters")
	p.awaitText(".list", "writes")
	p.await(`[...document.querySelectorAll('.row')].some((row) => row.textContent.includes('mail') &&
		row.textContent.includes('wait'))`)
	p.looks("demo-limiters")
	p.visit("#/limiter" + demoNode + "/mail")
	p.await("document.querySelector('.charts path.c-line') !== null")
	p.looks("demo-limiter")
}
