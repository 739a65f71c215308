package auth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coordd/coordd/scheme"
)

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTokenFile covers the form of the file and its changes.
func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	if _, err := openTokenFile(path); err == nil {
		t.Error("a file that is not there is opened")
	}
	for _, content := range []string{"token\n", "token user more\n", "a x\na y\n",
		strings.Repeat("x", maxTicketBytes+1) + " user\n", "token m\xfcller\n",
		"token " + strings.Repeat("x", scheme.SubjectBytesMax+1)} {
		writeFile(t, path, content)
		if _, err := openTokenFile(path); err == nil || strings.Contains(err.Error(), "token user") ||
			!strings.Contains(err.Error(), "line ") {
			t.Errorf("%.20q: got %v", content, err)
		}
	}
	writeFile(t, path, "\n # a remark\n\ta\tx \nb y")
	f, err := openTokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.resolve("a").Name != "x" || f.resolve("b").Name != "y" || f.resolve("x") != nil ||
		f.resolve("") != nil || f.resolve("#") != nil {
		t.Error("not what is in the file")
	}
	a := f.resolve("a")
	if changed, err := f.reload(); changed || err != nil {
		t.Errorf("nothing has changed: got %v, %v", changed, err)
	}
	writeFile(t, path, "broken\n")
	if changed, err := f.reload(); changed || err == nil || !f.has(a) {
		t.Errorf("a broken file: got %v, %v, the token is there: %v", changed, err, f.has(a))
	}
	writeFile(t, path, "a somebody-else\n")
	if changed, err := f.reload(); !changed || err != nil || f.has(a) {
		t.Errorf("of another user: got %v, %v, has %v", changed, err, f.has(a))
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if changed, err := f.reload(); !changed || err != nil || f.resolve("a") != nil {
		t.Errorf("a file that is gone: got %v, %v", changed, err)
	}
}
