package coordination

import (
	"math"
	"reflect"
	"testing"
)

// The effective values of §1.5.
func TestEffectiveConfig(t *testing.T) {
	for _, c := range []struct {
		selfCheck, grace         uint32
		wantSelfCheck, wantGrace uint64
	}{
		{0, 0, 1000, 10_000}, {1, 1, 500, 1500}, {499, 1499, 500, 1500}, {500, 1501, 500, 1501},
		{10_000, 10_999, 10_000, 11_000},
		{10_001, 11_001, 10_000, 11_001}, {0, 1999, 1000, 2000}, {0, 30_000, 1000, 30_000},
		{0, 30_001, 1000, 30_000}, {math.MaxUint32, math.MaxUint32, 10_000, 30_000},
		{math.MaxUint32, 0, 10_000, 11_000},
	} {
		config := NodeConfig{SelfCheckPeriodMillis: c.selfCheck, SessionGracePeriodMillis: c.grace}
		if s, g := config.EffectiveSelfCheckMillis(), config.EffectiveGraceMillis(); s != c.wantSelfCheck ||
			g != c.wantGrace {
			t.Errorf("%d and %d are %d and %d, want %d and %d", c.selfCheck, c.grace, s, g, c.wantSelfCheck,
				c.wantGrace)
		}
	}
}

// Unknown modes count as the default: reads relaxed, attaches strict only for 0 and STRICT.
func TestModes(t *testing.T) {
	for mode, want := range map[int32]struct{ reads, attach bool }{
		0: {false, true}, 1: {true, true}, 2: {false, false}, 3: {false, false}, -1: {false, false},
	} {
		config := NodeConfig{ReadConsistencyMode: mode, AttachConsistencyMode: mode}
		if config.StrictReads() != want.reads || config.StrictAttach() != want.attach {
			t.Errorf("mode %d: strict reads %v, strict attach %v", mode, config.StrictReads(),
				config.StrictAttach())
		}
	}
}

// An alter changes the fields that it sets and no other (§1.2).
func TestMerge(t *testing.T) {
	stored := NodeConfig{1, 2, 3, 4, 5}
	if got := stored.Merge(NodeConfig{}); got != stored {
		t.Errorf("nothing changes %+v", got)
	}
	fields := reflect.TypeFor[NodeConfig]().NumField()
	for i := range fields {
		var sent NodeConfig
		want := stored
		for _, config := range []*NodeConfig{&sent, &want} {
			field := reflect.ValueOf(config).Elem().Field(i)
			if field.CanUint() {
				field.SetUint(77)
			} else {
				field.SetInt(77)
			}
		}
		if got := stored.Merge(sent); got != want {
			t.Errorf("%+v changes %+v", sent, got)
		}
	}
}
