package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
)

// setVersions sets a configuration again and again, each time once the version before has lasted long enough to be
// remembered.
func (s *server) setVersions(t *testing.T, name string, versions ...string) {
	t.Helper()
	for i, data := range versions {
		for late := time.Now().Add(patience); i > 0 && !s.lasted(t, name); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("the last version of %s remains young", name)
			}
		}
		file := filepath.Join(t.TempDir(), "data")
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		s.command(t, "config", "set", node, name, "--file", file)
	}
}

// lasted reports whether the present version of a configuration is older than a second.
func (s *server) lasted(t *testing.T, name string) bool {
	t.Helper()
	var versions []struct{ Changed time.Time }
	history := s.command(t, "config", "history", node, name, "-o", "json")
	if err := json.Unmarshal([]byte(history), &versions); err != nil {
		t.Fatal(err)
	}
	return time.Since(versions[len(versions)-1].Changed) > 2*time.Second // it has no parts of seconds
}

// settings are two versions of a configuration.
func settings() (before, after string) {
	lines := []string{"workers: 4", "timeout: 30s", "region: eu", "retries: 5", "log: info", "cache: 64 MiB",
		"queue: 100", "format: json"}
	before = strings.Join(lines, "\n") + "\n"
	lines[1], lines[5] = "timeout: 45s", "cache: 128 MiB"
	return before, strings.Join(append(lines, "trace: on"), "\n") + "\n"
}

// setField replaces the text of a field as typing does.
func (p *page) setField(selector, text string) {
	p.t.Helper()
	p.await(fmt.Sprintf("document.querySelector(%q) !== null", selector))
	p.eval(fmt.Sprintf("{ const field = document.querySelector(%q); field.value = %s; "+
		"field.dispatchEvent(new Event('input', { bubbles: true })) }", selector, jsString(text)), nil)
}

// A configuration is found in the tree, shown with its earlier version beside it, and changed. A change that somebody
// else has come before is refused with both texts; the reason of the other is in the log.
func TestConfig(t *testing.T) {
	t.Parallel()
	s, p := signedIn(t)
	s.command(t, "node", "alter", node, "--history", "data")
	before, after := settings()
	s.setVersions(t, "settings", before, after)
	p.visit("#/config")
	p.awaitText(".tree", "app")
	p.click("app")
	p.awaitText(".tree", "settings")
	p.click("settings")
	p.awaitText("pre.data", "timeout: 45s")
	p.awaitText(".lede", "1 earlier version is known")
	p.await("document.activeElement.textContent.includes('settings')")
	p.click("Compare")
	p.await(`[...document.querySelectorAll('.d-changed')].map((row) => row.textContent.replace(/\s+/g, '')).join() ===
		'2timeout:30s2timeout:45s,6cache:64MiB6cache:128MiB,9trace:on'`)
	p.looks("changes")
	p.click("Hex")
	p.awaitText("pre.hex", "0000 77 6f 72 6b 65 72 73 3a")

	p.click("Edit…")
	p.setField("textarea[name=data]", strings.Replace(after, "workers: 4", "workers: 6", 1))
	s.setVersions(t, "settings", strings.Replace(after, "workers: 4", "workers: 5", 1))
	p.expect("409")
	p.fill("reason", "OPS-7")
	p.await("document.querySelector('dialog form') !== null")
	p.eval("document.querySelector('dialog form').requestSubmit()", nil)
	p.awaitText("dialog .problem", "It has changed since you began")
	p.awaitText("dialog .diff", "workers: 5")
	p.awaitText("dialog .diff", "workers: 6")
	p.looks("conflict")
	p.click("Keep your text")
	p.await("document.querySelector('dialog input[name=reason]').value === 'OPS-7'")
	p.eval("document.querySelector('dialog form').requestSubmit()", nil)
	p.await("document.querySelector('dialog') === null")
	p.awaitText("pre.data", "77 6f 72 6b 65 72 73 3a 20 36") // workers: 6
	p.awaitText(".lede", "by anna")
	if log, err := os.ReadFile(s.Log); err != nil || !strings.Contains(string(log), `because of \"OPS-7\"`) {
		t.Errorf("the reason is not in the log: %v\n%s", err, log)
	}
	if got := s.command(t, "config", "get", node, "settings"); !strings.HasPrefix(got, "workers: 6\n") {
		t.Errorf("the configuration is %q", got)
	}
	p.expect("404")
	p.visit("#/config" + node + "/nothing")
	p.awaitText(".empty", "no such persistent semaphore")
}

// Thousands of semaphores are asked for by page, and names that are no text keep their bytes.
func TestConfigPages(t *testing.T) {
	t.Parallel()
	s, p := signedIn(t)
	names := make([]string, 600)
	for i := range names {
		names[i] = fmt.Sprintf("unit-%03d", i)
	}
	c := s.newSession(t, node, "maker", time.Minute)
	c.create(1, "evil\u202egnp.exe")
	c.create(1, names...)
	c.send(&request{Request: &Ydb_Coordination.SessionRequest_CreateSemaphore_{
		CreateSemaphore: &Ydb_Coordination.SessionRequest_CreateSemaphore{Name: "z-bytes", Limit: 1,
			Data: []byte("a\u202eb\x00\xff<img src=x>")}}})
	p.visit("#/config")
	p.click("app")
	p.awaitText(".tree", `evil\u202egnp.exe`)
	p.await("document.querySelectorAll('.tree a').length === 256")
	p.click("Show more")
	p.await("document.querySelectorAll('.tree a').length === 512")
	p.setField(".split input[type=search]", "unit-59")
	p.await("document.querySelectorAll('.tree a').length === 10")
	p.setField(".split input[type=search]", "z-b")
	p.click("z-bytes" + node)
	p.awaitText("pre.hex", "61 e2 80 ae 62 00 ff 3c")
	p.click("Text")
	p.awaitText("pre.text", `a\u202eb\x00\xff<img src=x>`)
	p.click("Edit…")
	p.awaitText("dialog", "no text that a page can edit")
}
