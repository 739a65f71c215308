package codec

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// The stored format must not change without a new version: a data directory of an older program would not be
// read any more. A difference here is a mistake, unless it adds a line.
func TestFormatIsStable(t *testing.T) {
	for version := uint64(1); version <= Version; version++ {
		checkFormat(t, version)
	}
	var b strings.Builder
	b.WriteString("# An entry with a stamp and one of each command, as it is stored. Rewritten by go test -update.\n")
	ofVersion := slices.DeleteFunc(filledCommands(&filler{version: VersionEntries}),
		func(c coordination.Command) bool { return Since(c) > VersionEntries })
	fmt.Fprintf(&b, "%x\n", entryOf(1_700_000_000_000, ofVersion))
	checkGolden(t, "testdata/entry2.golden", b.String())
}

// checkFormat looks at the values of a version: of the first with all fields set that it had, of a later one
// those with all fields set whose form came with it.
func checkFormat(t *testing.T, version uint64) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# One value of each command and of each row with all fields set, as it is stored. Rewritten by " +
		"go test -update.\n")
	f := &filler{version: version}
	for _, c := range filledCommands(f) {
		if Since(c) == version {
			fmt.Fprintf(&b, "%T %x\n", c, AppendCommand(nil, c))
		}
	}
	for _, row := range filledRows(f) {
		if sinceRow(row) == version {
			key, value, _ := EncodeRow(row)
			fmt.Fprintf(&b, "%T %x %x\n", row, key, value)
		}
	}
	checkGolden(t, fmt.Sprintf("testdata/version%d.golden", version), b.String())
}

func checkGolden(t *testing.T, name, now string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if now != string(want) {
		t.Errorf("stored so far:\n%s\nnow:\n%s", want, now)
	}
}
