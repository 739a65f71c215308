package codec

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// The stored format must not change without a new version: a data directory of an older program would not be read any
// more. A difference here is a mistake, unless it adds a line.
func TestFormatIsStable(t *testing.T) {
	var b strings.Builder
	b.WriteString("# One value of each command and of each row with all fields set, as it is stored. Rewritten by go test -update.\n")
	f := &filler{}
	for _, c := range filledCommands(f) {
		fmt.Fprintf(&b, "%T %x\n", c, AppendCommand(nil, c))
	}
	for _, row := range filledRows(f) {
		key, value, _ := EncodeRow(row)
		fmt.Fprintf(&b, "%T %x %x\n", row, key, value)
	}
	const name = "testdata/version1.golden"
	if *update {
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("stored so far:\n%s\nnow:\n%s", want, b.String())
	}
}
