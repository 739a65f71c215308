package server

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/coordd/coordd/server/calls"
)

var writeLimits = flag.Bool("write-limits", false, "write the table of budgets in docs/dev/limits.md anew")

const (
	limitsPage  = "../docs/dev/limits.md"
	budgetsHead = "| budget | limit |\n| --- | --- |\n"
)

// TestBudgetsPage wants docs/dev/limits.md to list the budgets of a server with their limits, and none of them to be in
// use without clients.
func TestBudgetsPage(t *testing.T) {
	s, conn := startTest(t, nil)
	_ = conn.Close()
	table := budgetsHead
	for _, b := range s.Budgets() {
		limit := fmt.Sprintf("%d MiB", b.Limit()>>20)
		if b.Limit() == calls.FewAtOnce() {
			limit = "half as many as there are processors"
		}
		table += fmt.Sprintf("| %s | %s |\n", b.Name(), limit)
		eventually(t, b.Name()+" to be given back", func() bool { return b.Used() == 0 && b.Waiting() == 0 })
	}
	page, err := os.ReadFile(limitsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), budgetsHead)
	_, after, ends := strings.Cut(rest, "\n\n")
	if want := before + table + "\n" + after; !found || !ends {
		t.Fatal("docs/dev/limits.md has no table of budgets")
	} else if *writeLimits {
		err = os.WriteFile(limitsPage, []byte(want), 0o644)
	} else if string(page) != want {
		t.Error("docs/dev/limits.md is not that of the server: go test ./server -run BudgetsPage -write-limits")
	}
	if err != nil {
		t.Error(err)
	}
}
