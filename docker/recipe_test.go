package docker_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestComposeRecipe runs the recipe of docs/recipes.md, with coordd's own program for the tests that it is
// for: they reach the server by its name, and order a fault.
func TestComposeRecipe(t *testing.T) {
	t.Parallel()
	name := standInImage(t)
	page, err := os.ReadFile("../docs/recipes.md")
	must(t, err)
	recipe := regexp.MustCompile(
		"(?s)\n## Docker compose\n.*?```yaml\n(.*?)```").FindStringSubmatch(string(page))
	if recipe == nil {
		t.Fatal("docs/recipes.md has no compose file")
	}
	text := strings.NewReplacer("YOUR-REGISTRY/coordd-standin:VERSION", name,
		"image: YOUR-TESTS", "image: "+name+"\n    command: [ctl, pending]").Replace(recipe[1])
	file := filepath.Join(t.TempDir(), "compose.yaml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	p := compose(t, file, nil)
	p.container("coordd").healthy(t)
	tests := func(program string, args ...string) string {
		t.Helper()
		run := []string{"run", "--rm", "-T", "--entrypoint", program, "tests"}
		return strings.TrimSpace(p.run(append(run, args...)...))
	}
	if got := tests("/coordd", "health", "--endpoint=grpc://coordd:2136/local"); got != "serving" {
		t.Errorf("the server is %q", got)
	}
	tests("/coordd-standin", "ctl", "fail-next", "kind=create-node", "status=OVERLOADED")
	if got := tests("/coordd-standin", "ctl", "pending"); got != "1" {
		t.Errorf("%q faults wait", got)
	}
}
