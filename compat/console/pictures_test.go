package console_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	tab "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// stretch makes all that a server answers seem to have taken twenty times as long until the page was loaded: a
// demonstration of three minutes fills charts of an hour. Samples of one time remain samples of one time.
const stretch = `{
	const [real, loaded, factor, slot] = [window.fetch, Date.now(), 20, 10000];
	window.fetch = async (...question) => {
		const answer = await real(...question);
		const text = (await answer.text()).replace(/"(\w+Millis)":\s*"(\d{1,13})"/g, (all, name, millis) => {
			if (/^(timeout|left|usual|silent)/.test(name)) return '"' + name + '":"' + millis * factor + '"';
			if (millis.length < 13) return all;
			const at = name === 'atMillis' ? Math.floor(millis / slot) * slot : millis;
			return '"' + name + '":"' + Math.min(Date.now(), loaded - factor * (loaded - at)) + '"';
		});
		const shown = text && JSON.parse(text);
		const many = Array.from({ length: factor }, (_, i) => i * slot); // a sample each ten seconds, as on a real one
		for (const server of shown.servers ?? []) {
			server.samples = (server.samples ?? []).flatMap((s) => many.map((more) => (
				{ ...s, atMillis: String(parseInt(s.atMillis, 10) + more) }))).filter((s) => s.atMillis < Date.now());
		}
		return new Response(text ? JSON.stringify(shown) : null, answer);
	};
}`

// TestPictures takes the pictures of docs/img anew, in a folder that PICTURES names.
func TestPictures(t *testing.T) {
	folder := os.Getenv("PICTURES")
	if folder == "" {
		t.Skip("to take the pictures of the docs: PICTURES=$PWD/docs/img compat/console/run -run Pictures")
	}
	take := func(p *page, name string, width, height int64) {
		p.t.Helper()
		var picture []byte
		p.size(width, max(height, 760), "light")
		p.eval("document.activeElement.blur(); scrollTo(0, 0)", nil)
		p.run(chromedp.ActionFunc(func(ctx context.Context) (err error) {
			part := &tab.Viewport{Width: float64(width), Height: float64(height), Scale: 1}
			picture, err = tab.CaptureScreenshot().WithClip(part).Do(ctx)
			return err
		}))
		file := filepath.Join(folder, "console-"+name+".png")
		if err := os.WriteFile(file, smaller(p.t, picture), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	t.Run("standin", func(t *testing.T) {
		t.Parallel()
		_, p := standIn(t, "--demo")
		p.breakDemo()
		p.eval("scrollTo(0, 0)", nil)
		p.run(input.DispatchMouseEvent(input.MouseMoved, 700, 400).WithPointerType(input.Mouse)) // the chart stays now
		p.eval(`document.querySelector('.q-scroll').scrollTop =
			[...document.querySelectorAll('.q-order rect')].at(-1).getBBox().y - 260`, nil)
		take(p, "standin", 1440, 1010)
		p.run(input.DispatchMouseEvent(input.MouseMoved, 1, 1))
		p.visit("#/limiters")
		p.await(`[...document.querySelectorAll('.row')].some((row) => row.textContent.includes('mail') &&
			row.textContent.includes('wait'))`)
		take(p, "limiters", 1180, 460)
	})
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		s, p := startServers(t, "a", "b", "c")[0], newPage(t)
		p.run(chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := tab.AddScriptToEvaluateOnNewDocument(stretch).Do(ctx)
			return err
		}))
		p.open(s.link(t))
		s.demonstrate(t)
		show := func(hash, selector, text string) {
			t.Helper()
			p.visit(hash)
			p.run(chromedp.Reload()) // so that all times are of one moment
			p.awaitText(selector, text)
		}
		p.size(1180, 760, "light")
		show("#/locks", ".lede", "Three locks need a look")
		take(p, "locks", 1180, 760)
		show("#/lock"+node+"/nightly-report", ".line", "report@batch-9")
		p.awaitText(".gantt", "report@batch-2")
		take(p, "lock", 1180, 760)
		show("#/config"+node+"/settings", ".past", "Compare")
		p.click("Compare")
		p.awaitText(".diff", "cache: 64 MiB")
		take(p, "config", 1180, 916)
		p.size(1440, 808, "light")
		show("#/cluster", ".charts", "at most")
		p.await("document.querySelectorAll('.charts path.c-line').length === 4")
		take(p, "cluster", 1440, 808)
	})
}

// demonstrate holds and awaits locks as in earnest, for three minutes.
func (s *server) demonstrate(t *testing.T) {
	t.Helper()
	begun := time.Now()
	s.command(t, "node", "create", node)
	s.command(t, "node", "alter", node, "--history", "data")
	before, after := settings()
	s.setVersions(t, "settings", before, after)
	load := s.newSession(t, node, "payouts", 10*time.Second)
	load.create(1, "payouts", "nightly-report")
	work := func(seconds float64) {
		t.Helper()
		for end := time.Since(begun).Seconds() + seconds; ; load.release("payouts") {
			now := time.Since(begun).Seconds()
			if load.acquire("payouts", 1, forever); now > end {
				break
			}
			time.Sleep(time.Duration(20+15*(1+math.Sin(now/11))) * time.Millisecond)
		}
		load.release("payouts")
	}
	for i := range 6 {
		c := s.newSession(t, node, fmt.Sprint("report@batch-", []int{2, 5, 7}[i%3]), 3*time.Second)
		c.acquire("nightly-report", 1, forever)
		work(8 + float64(i%3))
		if i == 4 {
			c.cut()
			work(4)
		} else {
			c.release("nightly-report")
		}
	}
	s.fill(t)
	work(55)
	s.newSession(t, node, "report@batch-9", 10*time.Second).acquire("nightly-report", 1, forever)
	work(25)
	for i := range 3 {
		s.newSession(t, node, fmt.Sprint("resize-", 20+i), 10*time.Second).acquire("resize", 1, 45_000)
	}
	deploy := s.newSession(t, node, "deploy-5822", 20*time.Second)
	deploy.acquire("migrate-schema", 1, forever)
	work(31)
	deploy.cut()
}
