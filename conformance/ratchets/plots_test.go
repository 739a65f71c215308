package ratchets

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var writePlots = flag.Bool("write-plots", false, "write the plots of docs/benchmarks.md anew")

// plot is a picture of some rows of the first table in docs/benchmarks.md: bars of a group have a scale of their own.
type plot struct {
	file, title string
	load, unit  string // of the rows
	better      string
	bars        int
}

var plots = []plot{
	{"bench-locks", "Locks and unlocks a second", "W1 lock+unlock", "pairs/s", "more is better", 15},
	{"bench-latency", "99 of 100 pairs of lock and unlock within", "W1 lock+unlock", "p99 ms",
		"less is better", 15},
	{"bench-hand-overs", "Hand-overs of one lock that all clients want, a second", "W2 hand-over", "hand-overs/s",
		"more is better", 10},
	{"bench-open", "Of 1,000 requests a second, whether answers come or not, 99 of 100 are answered within",
		"Open loop, 1,000/s", "p99 ms", "less is better", 4},
}

// plotted are the columns of the table that the plots have; the first ones are coordd's.
var plotted = []struct {
	column int
	name   string
}{{5, "coordd"}, {6, "coordd, Go SDK"}, {7, "etcd"}, {8, "ZooKeeper"}, {9, "Redis"}}

const plotStyle = `text{font:13px system-ui,sans-serif;fill:#1f2328}.n{text-anchor:end}.h{font-weight:600}` +
	`.l{fill:#59636e}rect{fill:#8c959f}.c{fill:#0969da}@media(prefers-color-scheme:dark){` +
	`text{fill:#f0f6fc}.l{fill:#9198a1}rect{fill:#656c76}.c{fill:#4493f8}}`

// draw returns the picture of the rows that the plot is of.
func (p plot) draw(rows [][]string) string {
	const left, width, step = 120, 420, 20
	var bars, described strings.Builder
	y := 52
	for _, row := range rows {
		if row[1] != p.load || row[3] != p.unit {
			continue
		}
		values, most := make([]float64, len(plotted)), 0.0
		for i, of := range plotted {
			values[i], _ = strconv.ParseFloat(strings.NewReplacer(",", "", "≤ ", "").Replace(row[of.column]), 64)
			most = max(most, values[i])
		}
		clients := "1 client"
		if row[2] != "1" {
			clients = row[2] + " clients"
		}
		y += 14
		fmt.Fprintf(&bars, "<text x=\"16\" y=\"%d\" class=\"h\">%s</text>\n", y, clients)
		fmt.Fprintf(&described, " %s:", clients)
		y += 8
		for i, of := range plotted {
			if row[of.column] == "" {
				continue
			}
			class := ""
			if strings.HasPrefix(of.name, "coordd") {
				class = ` class="c"`
			}
			length := values[i] / most * width
			fmt.Fprintf(&bars, "<text x=\"%d\" y=\"%d\" class=\"n\">%s</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" "+
				"height=\"14\" rx=\"2\"%s/><text x=\"%.1f\" y=\"%d\">%s</text>\n",
				left-8, y+12, of.name, left, y+1, length, class, left+length+6, y+12, row[of.column])
			fmt.Fprintf(&described, " %s %s,", of.name, row[of.column])
			y += step
		}
	}
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 620 %d\" width=\"620\" height=\"%d\" "+
		"role=\"img\">\n<title>%s</title>\n<desc>%s</desc>\n<style>%s</style>\n<text x=\"16\" y=\"24\" class=\"h\">%s"+
		"</text>\n<text x=\"16\" y=\"44\" class=\"l\">%s; each group of bars has its own scale</text>\n%s</svg>\n",
		y+16, y+16, p.title, strings.TrimSuffix(strings.TrimSpace(described.String()), ","), plotStyle, p.title,
		p.better, bars.String())
}

// TestBenchmarkPlots wants the plots in docs/benchmarks.md to be those of its table.
func TestBenchmarkPlots(t *testing.T) {
	page := pages(t)["docs/benchmarks.md"]
	var rows [][]string
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == 11 {
			rows = append(rows, cells)
		}
	}
	for _, p := range plots {
		name := filepath.Join(root, "docs", "img", p.file+".svg")
		picture := p.draw(rows)
		if *writePlots {
			if err := os.WriteFile(name, []byte(picture), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		kept, err := os.ReadFile(name)
		if err != nil || string(kept) != picture || strings.Count(picture, "<rect") != p.bars {
			t.Errorf("%s is not the plot of the table: go test ./conformance/ratchets -run TestBenchmarkPlots "+
				"-args -write-plots (%v)", name, err)
		}
		if !strings.Contains(page, "](img/"+p.file+".svg)") {
			t.Errorf("docs/benchmarks.md does not show %s", name)
		}
	}
}
