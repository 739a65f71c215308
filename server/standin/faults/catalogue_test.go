package faults_test

import (
	"os"
	"strings"
	"testing"

	"github.com/coordd/coordd/server/standin/faults"
)

// docs/faults.md names every order and every kind of request.
func TestCatalogue(t *testing.T) {
	page, err := os.ReadFile("../../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	help, err := faults.New("/local", nil).Controls().Do(t.Context(), "help", nil)
	if err != nil {
		t.Fatal(err)
	}
	for order := range help.(map[string]string) {
		switch order {
		case "help", "reset", "pending", "requests", "forget-requests":
		default:
			if !strings.Contains(string(page), "`"+order) {
				t.Errorf("docs/faults.md has nothing of %s", order)
			}
		}
	}
	for _, kind := range faults.Kinds() {
		if !strings.Contains(string(page), "`"+string(kind)+"`") {
			t.Errorf("docs/faults.md has nothing of %s", kind)
		}
	}
}
