// Package console_test opens the console of bin/coordd in Chromium, as `make test-console` does. Each test has a
// browser profile of its own, and fails if the page logs an error or breaks its policy.
//
// With SCREENSHOTS naming a folder the views are written there as pictures. With AXE naming the file axe.min.js of the
// package axe-core of npm the views are checked with it. With PICTURES naming docs/img by its absolute path, `run -run
// Pictures` takes those of the docs anew.
package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/coordd/coordd/internal/testserver"
)

// patience bounds the wait for the page to show something; only a failing test uses it up.
const patience = time.Minute

// fonts makes pictures look the same on every machine that has these families.
const fonts = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><include>/etc/fonts/fonts.conf</include><match target="pattern">
<test qual="any" name="family"><string>sans-serif</string></test>
<test qual="all" name="family" compare="not_eq"><string>monospace</string></test>
<test qual="all" name="family" compare="not_eq"><string>ui-monospace</string></test>
<test qual="all" name="family" compare="not_eq"><string>JetBrains Mono</string></test>
<edit name="family" mode="prepend_first" binding="strong"><string>Inter</string></edit></match></fontconfig>`

// chromium returns the browser, and skips a test that cannot have it.
func chromium(t *testing.T) string {
	t.Helper()
	if os.Getenv("COORDD_BIN") == "" {
		t.Skip("COORDD_BIN names no program: `make test-console` builds it and runs this")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if file, err := exec.LookPath(name); err == nil {
			return file
		}
	}
	t.Skip("there is no Chromium here: the console is not tested (apt-get install chromium fonts-inter)")
	return ""
}

// page is a tab of a browser.
type page struct {
	t   *testing.T
	ctx context.Context

	mutex sync.Mutex
	// expected are parts of errors that the page may log, and logged are those that it has.
	expected, logged []string
}

// newPage starts a browser with an empty tab.
func newPage(t *testing.T, more ...chromedp.ExecAllocatorOption) *page {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fonts.conf")
	if err := os.WriteFile(file, []byte(fonts), 0o600); err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox,
		chromedp.Env("FONTCONFIG_FILE="+file), chromedp.WSURLReadTimeout(patience))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	p := &page{t: t, ctx: ctx}
	p.listen()
	p.run(log.Enable(), chromedp.EmulateViewport(1440, 900))
	return p
}

// sibling opens another window of the same browser, so that both are visible.
func (p *page) sibling() *page {
	p.t.Helper()
	var id target.ID
	p.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		id, err = target.CreateTarget("about:blank").WithNewWindow(true).Do(ctx)
		return err
	}))
	ctx, cancel := chromedp.NewContext(p.ctx, chromedp.WithTargetID(id))
	p.t.Cleanup(cancel)
	other := &page{t: p.t, ctx: ctx, expected: p.expected}
	other.listen()
	other.run(log.Enable())
	return other
}

func (p *page) listen() {
	chromedp.ListenTarget(p.ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.complain(e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			text, _ := json.Marshal(e.Args)
			p.complain(fmt.Sprintf("console.%s: %s", e.Type, text))
		case *log.EventEntryAdded:
			p.complain(e.Entry.Text + " " + e.Entry.URL)
		}
	})
}

// expect lets the page log errors that have a text in them.
func (p *page) expect(text string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.expected = append(p.expected, text)
}

func (p *page) complain(text string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, e := range p.expected {
		if strings.Contains(text, e) {
			p.logged = append(p.logged, text)
			return
		}
	}
	p.t.Errorf("the page has logged: %s", text)
}

// awaitLogged waits until the page has logged an error that it may log.
func (p *page) awaitLogged(text string) {
	p.t.Helper()
	for over := time.Now().Add(patience); ; p.eval("0", nil) {
		p.mutex.Lock()
		logged := strings.Join(p.logged, "\n")
		p.mutex.Unlock()
		if strings.Contains(logged, text) {
			return
		}
		if time.Now().After(over) {
			p.t.Fatalf("the page has not logged %q but:\n%s", text, logged)
		}
	}
}

func (p *page) run(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if p.ctx.Err() == nil && chromedp.FromContext(p.ctx).Target == nil {
		ctx = p.ctx // the first action starts the browser, which lives as long as this
	}
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// open goes to an address and waits for a view.
func (p *page) open(url string) {
	p.t.Helper()
	p.run(chromedp.Navigate(url))
	p.await("document.querySelector('h1') !== null")
}

// visit goes to a view of the page that is open.
func (p *page) visit(hash string) {
	p.t.Helper()
	p.eval(fmt.Sprintf("location.hash = %q", hash), nil)
}

func (p *page) eval(expression string, result any) {
	p.t.Helper()
	p.run(chromedp.Evaluate(expression, result))
}

// await waits until an expression of JavaScript is true.
func (p *page) await(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, chromedp.Poll(expression, nil, chromedp.WithPollingInterval(20*time.Millisecond),
		chromedp.WithPollingTimeout(patience))); err != nil {
		var shown string
		_ = chromedp.Run(p.ctx, chromedp.Evaluate("location.hash + '\\n' + document.body.innerText", &shown))
		p.t.Fatalf("waiting for %s: %v; the page shows:\n%s", expression, err, shown)
	}
}

// awaitText waits until the first element that a selector names has a text in it.
func (p *page) awaitText(selector, text string) {
	p.t.Helper()
	p.await(fmt.Sprintf("document.querySelector(%q)?.textContent.replace(/\\s+/g, ' ').includes(%s)", selector,
		jsString(text)))
}

// jsString returns a text as a literal of JavaScript.
func jsString(text string) string {
	literal, _ := json.Marshal(text)
	return string(literal)
}

// click clicks the first button or link that has a text.
func (p *page) click(text string) {
	p.t.Helper()
	found := fmt.Sprintf("[...document.querySelectorAll('button, a')].find((e) => e.textContent.trim() === %s)",
		jsString(text))
	p.await(found + " !== undefined")
	p.eval(found+".click()", nil)
}

// fill types a text into the field of a name.
func (p *page) fill(name, text string) {
	p.t.Helper()
	field := fmt.Sprintf("input[name=%q]", name)
	p.run(chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).value = ''", field), nil),
		chromedp.SendKeys(field, text, chromedp.ByQuery))
}

// server is a coordd with a console.
type server struct {
	*testserver.Server
	web string // the address of its console
}

// startServer starts a server with a console that may act, on a data directory.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	chromium(t)
	web, data := testserver.Address(t), filepath.Join(t.TempDir(), "data")
	s := &server{testserver.New(t, append([]string{"--listen-http", web, "--console", "write", "--data-dir", data},
		args...)...), "http://" + web}
	s.Data = data
	s.Start()
	return s
}

// command runs a command of coordd on the server and returns what it prints.
func (s *server) command(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.Command(s.Config.Program, args...)
	command.Env = append(os.Environ(), "COORDD_ENDPOINT="+s.Endpoint())
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("coordd %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// link returns a link to sign in with.
func (s *server) link(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(s.command(t, "console", "--data-dir", s.Data)) {
		if at := strings.Index(line, "#key="); at >= 0 {
			return s.web + "/" + strings.Fields(line[at:])[0]
		}
	}
	t.Fatal("coordd console prints no link")
	return ""
}
