package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// views are the pages to look at, by the names of their pictures, each with a text that it has once it is there.
var views = []struct{ name, hash, selector, text string }{
	{"locks", "#/locks", ".list", "nightly-report"},
	{"all", "#/locks?show=all", ".list", "nightly-report"},
	{"lock", "#/lock" + node + "/nightly-report", ".line", "batch-2"},
	{"shared", "#/lock" + node + "/resize", ".line", "resize-3"},
	{"sessions", "#/sessions", ".list", "report@batch-7"},
	{"hosts", "#/sessions?by=host", ".group", "127.0.0.1"},
	{"session", "#/session" + node + "/SESSION", ".who", "nightly-report"},
	{"timeline", "#/timeline", "h1", "Timeline"},
	{"cluster", "#/cluster", ".past", "leads"},
	{"more", "#/more", ".menu", "Configuration"},
	{"configuration", "#/config", ".tree", "settings"},
	{"setting", "#/config" + node + "/settings", ".past", "Compare"},
	{"limiters", "#/limiters", ".list", "reads"},
	{"limiter", "#/limiter" + node + "/mail", ".charts", "Waiting calls"},
	{"rights", "#/rights" + node, ".rights", "bob"},
}

// fill makes locks as they are seen in earnest.
func (s *server) fill(t *testing.T) (holder uint64) {
	t.Helper()
	start := func(name string) *session { return s.newSession(t, node, name, time.Minute) }
	first := start("report@batch-7")
	first.create(1, "nightly-report", "nightly-mail", "migrate-schema", "payout-run", "leader", "shard-0017")
	first.create(8, "resize")
	first.create(4, "thumbnails")
	first.create(1000, "api")
	first.create(forever, "rw-catalog")
	first.acquire("nightly-report", 1, forever)
	first.acquire("nightly-mail", 1, forever)
	for i, name := range []string{"report@batch-2", "report@batch-5", "anna@laptop"} {
		start(name).acquire("nightly-report", 1, []uint64{900_000, 900_000, forever}[i])
	}
	for i := range 8 {
		start(fmt.Sprintf("resize-%d", i)).acquire("resize", 1, forever)
	}
	for i := range 3 {
		start(fmt.Sprintf("resize-%d", 10+i)).acquire("resize", 1, 20_000)
	}
	for i := range 5 {
		c := start(fmt.Sprintf("api-%d", i))
		c.acquire("api", 1, forever)
		c.acquire("rw-catalog", 1, forever)
	}
	start("scheduler-b").acquire("leader", 1, forever)
	start("scheduler-a").acquire("leader", 1, forever)
	indexer := start("indexer-04")
	indexer.acquire("shard-0017", 1, forever)
	indexer.acquire("thumbnails", 2, forever)
	gone := start("deploy-5821")
	gone.acquire("migrate-schema", 1, forever)
	gone.cut()
	return first.id
}

// Each view fits the screen, from a phone to a wide one, in both colour schemes. axe finds nothing serious.
func TestLooks(t *testing.T) {
	t.Parallel()
	s, p := signedIn(t)
	holder := s.fill(t)
	s.command(t, "node", "alter", node, "--history", "data")
	before, after := settings()
	s.setVersions(t, "settings", before, after)
	s.command(t, "node", "create", "/local/team/billing")
	s.limit(t)
	s.use(t)
	s.command(t, "grant", "/local", "bob", "ydb.generic.read")
	s.command(t, "grant", node, "reporter", "ydb.granular.update_row", "ydb.granular.select_row")
	s.command(t, "chown", node, "carl")
	p.visit("#/config")
	p.click("app") // which stays open
	axe := readAxe(t)
	for _, view := range views {
		for _, width := range []int64{320, 768, 1180, 1440, 2560} {
			for _, scheme := range []string{"light", "dark"} {
				if scheme == "dark" && (width == 1180 || width == 2560) {
					continue // colours take no room
				}
				p.size(width, 900, scheme)
				p.visit("#/nowhere")
				p.visit(strings.ReplaceAll(view.hash, "SESSION", fmt.Sprint(holder)))
				p.awaitText(view.selector, view.text)
				name := fmt.Sprintf("%s-%d-%s", view.name, width, scheme)
				var wide bool
				p.eval("document.documentElement.scrollWidth > document.documentElement.clientWidth", &wide)
				if wide {
					t.Errorf("%s is wider than the screen", name)
				}
				if axe != "" && width != 1180 && width != 2560 {
					p.check(axe, name)
				}
				p.picture(width, scheme, name)
			}
		}
	}
}

// size sets the size of the screen, and whether it is light or dark.
func (p *page) size(width, height int64, scheme string) {
	p.t.Helper()
	scale := 1.0
	if width < 600 {
		scale = 2
	}
	p.run(emulation.SetDeviceMetricsOverride(width, height, scale, width < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

// picture writes the whole page to a file, if SCREENSHOTS names a folder.
func (p *page) picture(width int64, scheme, name string) {
	p.t.Helper()
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		return
	}
	var height int64
	var picture []byte
	p.eval("document.documentElement.scrollHeight", &height)
	p.size(width, min(max(height, 700), 4000), scheme)
	p.run(chromedp.CaptureScreenshot(&picture))
	if err := os.WriteFile(filepath.Join(folder, name+".png"), smaller(p.t, picture), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// looks checks that the page as it is fits a phone and a desk, with axe, and takes pictures of it.
func (p *page) looks(name string) {
	p.t.Helper()
	axe := readAxe(p.t)
	for _, width := range []int64{320, 1180} {
		for _, scheme := range []string{"dark", "light"} {
			p.size(width, 760, scheme)
			shown := fmt.Sprintf("%s-%d-%s", name, width, scheme)
			var wide bool
			p.eval("document.documentElement.scrollWidth > document.documentElement.clientWidth", &wide)
			if wide {
				p.t.Errorf("%s is wider than the screen", shown)
			}
			if axe != "" {
				p.check(axe, shown)
			}
			p.picture(width, scheme, shown)
		}
	}
	p.size(1440, 900, "light")
}

func readAxe(t *testing.T) string {
	t.Helper()
	if os.Getenv("AXE") == "" {
		t.Log("AXE names no axe.min.js: the views are not checked with axe")
		return ""
	}
	axe, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		t.Fatal(err)
	}
	return string(axe)
}

// check runs axe on the page.
func (p *page) check(axe, name string) {
	p.t.Helper()
	var found string
	p.run(chromedp.Evaluate(axe+"; undefined", nil))
	p.eval(`window.found = undefined;
		axe.run().then((r) => { window.found = JSON.stringify(r.violations.map((v) => ({ id: v.id, impact: v.impact,
			nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 99) + n.failureSummary) }))) }); undefined`, nil)
	p.await("window.found !== undefined")
	p.eval("window.found", &found)
	var violations []struct {
		ID, Impact string
		Nodes      []string
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		p.t.Fatal(err)
	}
	for _, v := range violations {
		report := p.t.Logf
		if v.Impact == "serious" || v.Impact == "critical" {
			report = p.t.Errorf
		}
		report("%s: axe finds %s (%s): %s", name, v.ID, v.Impact, strings.Join(v.Nodes, "\n"))
	}
}
