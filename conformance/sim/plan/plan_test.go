package plan

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestWrittenPlanIsReadBack(t *testing.T) {
	p := Plan{Seed: 7, Virtual: Duration(10 * time.Second), Settle: Duration(time.Minute),
		Servers: []Server{{Name: "s1", Member: true, ClockPPM: -50_000}, {Name: "s2"}},
		Links:   Links{Max: Duration(1500 * time.Microsecond)}, Nodes: []Node{{StrictReads: true}},
		Clients: []Client{{Kind: Mutex, Timeout: Duration(time.Second)}},
		Events: []Event{{At: Duration(time.Second), Kind: Cut, Other: 1, For: Duration(2 * time.Second)},
			{At: Duration(3 * time.Second), Kind: Power, All: true, N: TornWrites, Share: 0.5}}}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := p.Write(file); err != nil {
		t.Fatal(err)
	}
	read, err := Read(file)
	if err != nil || !reflect.DeepEqual(read, p) {
		t.Errorf("read %+v, %v, want %+v", read, err, p)
	}
	text, err := os.ReadFile(file)
	const line = `{ "at": "3s", "kind": "power", "all": true, "n": 1, "share": 0.5 }`
	if err != nil || !strings.Contains(string(text), line+"\n") {
		t.Errorf("an event is not on a line of its own: %v\n%s", err, text)
	}
}

func TestUnknownFieldIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(`{"seed": 1, "virtul": "1s"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil {
		t.Error("a plan with an unknown field was read")
	}
}

func TestChanceDependsOnNameAndSeedOnly(t *testing.T) {
	a, b := Plan{Seed: 1}, Plan{Seed: 1, Events: make([]Event, 3)}
	if a.Chance("disk s1").Uint64() != b.Chance("disk s1").Uint64() {
		t.Error("events move the chance of a disk")
	}
	c := Plan{Seed: 2}
	if a.Chance("x").Uint64() == a.Chance("y").Uint64() || a.Chance("x").Uint64() == c.Chance("x").Uint64() {
		t.Error("two streams of chance are the same")
	}
}
