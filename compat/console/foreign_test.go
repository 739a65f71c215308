package console_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// foreign is a page of another origin, which tries to use the console at CONSOLE.
const foreign = `<!doctype html><title>foreign</title><h1>foreign</h1><iframe src="CONSOLE/"></iframe>
<script type="module">
const json = { 'Content-Type': 'application/json', Authorization: 'Bearer x' };
const body = '{"path":"/local/app","session":"1","reason":"foreign"}';
const end = { method: 'POST', body, credentials: 'include' };
const form = { 'Content-Type': 'application/x-www-form-urlencoded' };
const act = 'CONSOLE/api/coordd.admin.v1.Inspect/EndSession';
const outcome = (attempt) => attempt.then((r) => r?.type === 'opaque' ? 'opaque' : 'read', (e) => e.name);
const loads = (element, url) => new Promise((done, fail) => {
  const onerror = () => fail(new TypeError('refused'));
  Object.assign(element, { onload: done, onerror, src: url, href: url, rel: 'stylesheet' });
  document.head.append(element);
});
const tries = {
  answer: fetch(act, { ...end, headers: json }),
  text: fetch(act, { ...end, mode: 'no-cors' }),
  form: fetch(act, { ...end, mode: 'no-cors', headers: form }),
  page: fetch('CONSOLE/'),
  module: import('CONSOLE/console/main.mjs'),
  picture: loads(new Image(), 'CONSOLE/console/mark.svg'),
  style: loads(document.createElement('link'), 'CONSOLE/console/console.css'),
};
const found = {};
for (const [name, attempt] of Object.entries(tries)) found[name] = await outcome(attempt);
window.found = JSON.stringify(found);
</script>`

// A page of another origin, in the browser of a person who is signed in, cannot frame the console, read its answers,
// use its files, or act.
func TestForeignPage(t *testing.T) {
	t.Parallel()
	s, p := signedIn(t)
	holder := s.newSession(t, node, "holder", time.Minute)
	holder.acquireNew("nightly-report")
	p.awaitText(".list", "nightly-report")
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, strings.ReplaceAll(foreign, "CONSOLE", s.web))
	}))
	t.Cleanup(elsewhere.Close)
	other := p.sibling()
	other.expect("")
	other.open(elsewhere.URL)
	other.await("window.found !== undefined")
	var text string
	other.eval("window.found", &text)
	var found map[string]string
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"answer", "page", "module", "picture", "style"} {
		if found[name] != "TypeError" {
			t.Errorf("%s: %s", name, found[name])
		}
	}
	for _, name := range []string{"text", "form"} { // they reach the server, or their answers are kept from the page
		if found[name] != "TypeError" && found[name] != "opaque" {
			t.Errorf("%s: %s", name, found[name])
		}
	}
	if names := slices.Sorted(maps.Keys(found)); len(names) != 7 {
		t.Errorf("tried: %v", names)
	}
	other.awaitLogged("frame-ancestors")
	p.visit("#/lock" + node + "/nightly-report")
	p.awaitText(".big-who", "holder")
	if log := s.Logged(); strings.Contains(log, "act=Inspect/EndSession") {
		t.Error("a page of another origin has acted")
	}
}

// A name of somebody else that has become one of this machine does not reach the console.
func TestForeignName(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newPage(t, chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	p.expect("421")
	p.expect("Cross-Origin-Opener-Policy") // is for addresses that a browser trusts
	p.run(chromedp.Navigate(strings.Replace(s.web, "127.0.0.1", "evil.example", 1)))
	p.awaitText("body", "does not go by the name in the Host header")
	var answer string
	p.eval(`fetch('/api/session', { method: 'POST', body: '{}', headers: { 'Content-Type': 'application/json' } })
		.then(async (r) => { window.answer = r.status + ' ' + await r.text() }); undefined`, nil)
	p.await("window.answer !== undefined")
	p.eval("window.answer", &answer)
	if !strings.HasPrefix(answer, "421 ") {
		t.Errorf("the answer to a name of somebody else: %s", answer)
	}
}

// The page makes no markup of text, whatever its scripts do: the browser refuses it.
func TestNoMarkupOfText(t *testing.T) {
	t.Parallel()
	_, p := signedIn(t)
	p.expect("TrustedHTML")
	p.expect("TrustedScript")
	for _, attempt := range []string{"document.body.innerHTML = '<b>x</b>'", "document.write('<b>x</b>')",
		"document.createElement('script').textContent = 'alert(1)'",
		"document.createElement('iframe').srcdoc = 'x'"} {
		var thrown string
		p.eval("(() => { try { "+attempt+"; return 'nothing'; } catch (e) { return e.name; } })()", &thrown)
		if thrown != "TypeError" {
			t.Errorf("%s throws %s", attempt, thrown)
		}
	}
}
