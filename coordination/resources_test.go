package coordination

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// ofRate are properties with a rate, and what this program does not know of the settings and of the resource.
func ofRate(rate float64, moreSettings, more string) ResourceProperties {
	return ResourceProperties{MaxUnitsPerSecond: RealOf(rate), MoreSettings: []byte(moreSettings),
		More: []byte(more)}
}

// resourceRig is a rig with the node /local/n.
func resourceRig(t *testing.T) *rig {
	r := newRig(t)
	r.createNode("/local/n", relaxed)
	return r
}

func (r *rig) create(path string, p ResourceProperties) outcome.Outcome {
	r.t.Helper()
	return r.outcome(&CreateResource{Path: pathOf("/local/n"), Resource: path, ResourceProperties: p})
}

func (r *rig) alter(path string, p ResourceProperties) outcome.Outcome {
	r.t.Helper()
	return r.outcome(&AlterResource{Path: pathOf("/local/n"), Resource: path, ResourceProperties: p})
}

func (r *rig) drop(path string) outcome.Outcome {
	r.t.Helper()
	return r.outcome(&DropResource{Path: pathOf("/local/n"), Resource: path})
}

func (r *rig) is(got outcome.Outcome, want string) {
	r.t.Helper()
	if text := got.String(); text != want {
		r.t.Errorf("answered %q, want %q", text, want)
	}
}

// Errors are found in the reference's order (ratelimiter.md §3, §4).
func TestResourceRefusals(t *testing.T) {
	r := resourceRig(t)
	nan, inf := math.NaN(), math.Inf(1)
	bad := ResourceProperties{MaxUnitsPerSecond: RealOf(-1)}
	r.is(r.create("a", ofRate(10, "", "")), "SUCCESS")
	r.is(r.create("a/b", ResourceProperties{}), "SUCCESS")
	r.run(&MakeDirectory{Path: pathOf("/local/d")})
	for _, c := range []struct {
		what string
		got  outcome.Outcome
		want string
	}{
		{"no node", r.outcome(&CreateResource{Path: pathOf("/local/x"), Resource: "?"}), "SCHEME_ERROR"},
		{"another kind", r.outcome(&CreateResource{Path: pathOf("/local/d"), Resource: "?"}),
			"BAD_REQUEST [0/1] Path is not a coordination node path."},
		{"symbols", r.create("a b", bad), "BAD_REQUEST [0/1] Invalid resource path."},
		{"symbols that are not ASCII", r.create("ä", bad), "BAD_REQUEST [0/1] Invalid resource path."},
		{"all symbols", r.create("azAZ09._-:#", ofRate(1, "", "")), "SUCCESS"},
		{"the same again", r.create("a", ofRate(10, "", "other metering")),
			"ALREADY_EXISTS [0/1] Resource already exists and has same settings."},
		{"with other settings", r.create("a", bad),
			"BAD_REQUEST [0/1] Resource already exists and has different settings."},
		{"with more settings", r.create("a", ofRate(10, "m", "")),
			"BAD_REQUEST [0/1] Resource already exists and has different settings."},
		{"an empty path", r.create("", bad), "BAD_REQUEST [0/1] Empty resource path is specified."},
		{"no parent", r.create("x/y", bad), "BAD_REQUEST [0/1] Parent resource \"x\" doesn't exist."},
		{"no parent of many", r.create("a/b/c/d", bad),
			"BAD_REQUEST [0/1] Parent resource \"a/b/c\" doesn't exist."},
		{"a rate that is none", r.create("b",
			ResourceProperties{MaxUnitsPerSecond: RealOf(nan), PrefetchCoefficient: RealOf(nan)}),
			"BAD_REQUEST [0/1] MaxUnitsPerSecond must be finite."},
		{"an infinite rate", r.create("b", ofRate(inf, "", "")),
			"BAD_REQUEST [0/1] MaxUnitsPerSecond must be finite."},
		{"a negative rate", r.create("b", ResourceProperties{MaxUnitsPerSecond: RealOf(-1),
			PrefetchCoefficient: RealOf(nan)}), "BAD_REQUEST [0/1] MaxUnitsPerSecond can't be less than 0."},
		{"prefetch", r.create("b", ResourceProperties{PrefetchCoefficient: RealOf(-inf),
			PrefetchWatermark: RealOf(nan)}),
			"BAD_REQUEST [0/1] PrefetchCoefficient must be finite."},
		{"watermark", r.create("b", ResourceProperties{PrefetchWatermark: RealOf(inf)}),
			"BAD_REQUEST [0/1] PrefetchWatermark must be finite."},
		{"negative watermark", r.create("b", ResourceProperties{PrefetchWatermark: RealOf(-0.1)}),
			"BAD_REQUEST [0/1] PrefetchWatermark can't be less than 0."},
		{"large watermark", r.create("b", ResourceProperties{PrefetchWatermark: RealOf(1.1)}),
			"BAD_REQUEST [0/1] PrefetchWatermark can't be greater than 1."},
		{"a root without a rate", r.create("b", ResourceProperties{PrefetchWatermark: RealOf(1)}),
			"BAD_REQUEST [0/1] No MaxUnitsPerSecond parameter in root resource."},
		{"any burst", r.create("b", ResourceProperties{MaxUnitsPerSecond: RealOf(1),
			MaxBurstSizeCoefficient: RealOf(nan)}), "SUCCESS"},
		{"which is never the same", r.create("b",
			ResourceProperties{MaxUnitsPerSecond: RealOf(1), MaxBurstSizeCoefficient: RealOf(nan)}),
			"BAD_REQUEST [0/1] Resource already exists and has different settings."},
		{"alter no node", r.outcome(&AlterResource{Path: pathOf("/local/x")}), "SCHEME_ERROR"},
		{"alter the empty path", r.alter("", bad),
			"BAD_REQUEST [0/1] You should specify resource path or resource id."},
		{"alter symbols", r.alter("a b", bad), "BAD_REQUEST [0/1] Invalid resource path."},
		{"alter what is missing", r.alter("x", bad), "NOT_FOUND [0/1] No resource found."},
		{"alter", r.alter("a", bad), "BAD_REQUEST [0/1] MaxUnitsPerSecond can't be less than 0."},
		{"alter a root to no rate", r.alter("a", ResourceProperties{}),
			"BAD_REQUEST [0/1] No MaxUnitsPerSecond parameter in root resource."},
		{"alter a child to no rate", r.alter("a/b", ResourceProperties{PrefetchCoefficient: RealOf(-1)}),
			"SUCCESS"},
		{"drop the empty path", r.drop(""),
			"BAD_REQUEST [0/1] You should specify resource path or resource id."},
		{"drop symbols", r.drop("a b"), "BAD_REQUEST [0/1] Invalid resource path."},
		{"drop what is missing", r.drop("x"), "NOT_FOUND [0/1] Resource doesn't exist."},
		{"drop with children", r.drop("a"), "BAD_REQUEST [0/1] Resource \"a\" has children."},
		{"drop a child", r.drop("a/b"), "SUCCESS"},
		{"drop", r.drop("a"), "SUCCESS"},
	} {
		if text := c.got.String(); text != c.want {
			t.Errorf("%s: %q, want %q", c.what, text, c.want)
		}
	}
}

// Exactly a bound is accepted, and one more refused.
func TestResourceBounds(t *testing.T) {
	r := resourceRig(t)
	deep := "0"
	r.is(r.create(deep, ofRate(1, "", "")), "SUCCESS")
	for range MaxResourceDepth - 1 {
		deep += "/0"
		r.is(r.create(deep, ResourceProperties{}), "SUCCESS")
	}
	r.is(r.create(deep+"/0", ResourceProperties{}), "BAD_REQUEST [0/1] Resource path has too many elements.")
	long := strings.Repeat("x", MaxResourcePathBytes)
	r.is(r.create(long, ofRate(1, "", "")), "SUCCESS")
	r.is(r.create(long+"x", ofRate(1, "", "")), "BAD_REQUEST [0/1] Resource path is too long.")
	more := strings.Repeat("x", MaxResourceMoreBytes-1)
	r.is(r.create("more", ofRate(1, more, "xy")), "BAD_REQUEST [0/1] Resource settings are too large.")
	r.is(r.create("more", ofRate(1, more, "x")), "SUCCESS")
	r.is(r.alter("more", ofRate(1, "xy", more)), "BAD_REQUEST [0/1] Resource settings are too large.")
	n := r.machine.nodes[1]
	r.lax = true
	for i := len(n.resources); i < MaxResources; i++ {
		n.addResource(fmt.Sprint("r", i), ofRate(1, "", ""), lineage{})
	}
	r.is(r.create("last", ofRate(1, "", "")), "PRECONDITION_FAILED [0/1] Too many resources already exist")
	r.is(r.drop(long), "SUCCESS")
	r.is(r.create("last", ofRate(1, "", "")), "SUCCESS")
	if err := r.machine.Check(); err != nil {
		t.Error(err)
	}
}

// What a node may hold bounds paths and what is not known of resources, and what does not grow always fits.
func TestResourceBytes(t *testing.T) {
	r := resourceRig(t)
	r.run(&SetLimits{Limits: StateLimits{NodeBytes: 10}})
	r.is(r.create("r", ofRate(1, "1234", "123456")),
		"PRECONDITION_FAILED [0/1] Coordination node has no space left")
	r.is(r.create("r", ofRate(1, "1234", "12345")), "SUCCESS")
	r.is(r.alter("r", ofRate(1, "12345", "12345")),
		"PRECONDITION_FAILED [0/1] Coordination node has no space left")
	r.run(&SetLimits{Limits: StateLimits{NodeBytes: 1}})
	r.is(r.alter("r", ofRate(2, "12345", "1234")), "SUCCESS")
	r.is(r.drop("r"), "SUCCESS")
	if n := r.machine.nodes[1]; n.bytes != 0 {
		t.Errorf("%d bytes are left", n.bytes)
	}
}

// A resource takes what it does not set from above, is never faster than that, and so is everything below
// (§3).
func TestEffectiveProperties(t *testing.T) {
	r := resourceRig(t)
	p := func(rate, prefetch, watermark float64) ResourceProperties {
		return ResourceProperties{MaxUnitsPerSecond: RealOf(rate), PrefetchCoefficient: RealOf(prefetch),
			PrefetchWatermark: RealOf(watermark), MaxBurstSizeCoefficient: RealOf(7)}
	}
	r.is(r.create("a", p(10, 0, 0)), "SUCCESS")
	r.is(r.create("a/more", p(20, 3, 0)), "SUCCESS")
	r.is(r.create("a/less", p(5, 0, 0.5)), "SUCCESS")
	r.is(r.create("a/less/x", p(0, -1, 0)), "SUCCESS")
	r.is(r.create("a/less/x/y", p(6, 0, 0)), "SUCCESS")
	want := func(path string, e Effective) {
		t.Helper()
		key, got, found := r.machine.Resources().Find(pathOf("/local/n"), path)
		if again, there := r.machine.Resources().Effective(key); !found || !there || got != e || again != e {
			t.Errorf("%s: %+v, want %+v", path, got, e)
		}
	}
	want("a", Effective{10, 0.2, 0.75, false})
	want("a/more", Effective{10, 3, 0.75, false})
	want("a/less", Effective{5, 0.2, 0.5, false})
	want("a/less/x", Effective{5, -1, 0.5, false})
	want("a/less/x/y", Effective{5, -1, 0.5, false})
	r.is(r.alter("a", p(4, 2, 0.1)), "SUCCESS")
	r.is(r.alter("a/less/x", p(3, 0, 0)), "SUCCESS")
	want("a", Effective{4, 2, 0.1, false})
	want("a/more", Effective{4, 3, 0.1, false})
	want("a/less", Effective{4, 2, 0.5, false})
	want("a/less/x/y", Effective{3, 2, 0.5, false})
	r.start(reread(t, r.machine))
	want("a/less/x/y", Effective{3, 2, 0.5, false})
	key, _, _ := r.machine.Resources().Find(pathOf("/local/n"), "a/less/x/y")
	if rates := r.machine.Resources().Rates(nil, key); !slices.Equal(rates,
		[]ResourceRate{{5, 3}, {4, 3}, {3, 4}, {1, 4}}) {
		t.Errorf("the rates are %v", rates)
	}
	r.is(r.alter("a", p(4, 0, 0)), "SUCCESS") // the reference keeps the old prefetch until a restart
	want("a", Effective{4, 0.2, 0.75, false})
	got, answer := r.machine.Resources().Describe(Caller{}, pathOf("/local/n"), "a/less/x")
	if !answer.OK() || !got.sameSettings(&ResourceProperties{MaxUnitsPerSecond: RealOf(3),
		MaxBurstSizeCoefficient: RealOf(7)}) {
		t.Errorf("described as %+v, %s", got, answer)
	}
}

// Ids never come back: not in the node, and not behind a restored backup.
func TestResourceIDs(t *testing.T) {
	r := resourceRig(t)
	id := func(path string) ResourceID {
		t.Helper()
		r.is(r.create(path, ofRate(1, "", "")), "SUCCESS")
		key, _, _ := r.machine.Resources().Find(pathOf("/local/n"), path)
		return key.ID
	}
	first := id("a")
	r.is(r.drop("a"), "SUCCESS")
	second := id("a")
	r.applyForeign(r.term, &BeginLineage{Lineage: 1})
	third := id("b")
	r.run(&DropNode{Path: pathOf("/local/n")})
	r.createNode("/local/n", relaxed)
	fourth := id("a")
	r.createNode("/local/other", relaxed)
	r.applyForeign(r.term, &BeginLineage{Lineage: 2})
	r.run(&CreateResource{Path: pathOf("/local/other"), Resource: "a", ResourceProperties: ofRate(1, "", "")})
	key, _, _ := r.machine.Resources().Find(pathOf("/local/other"), "a")
	if first != 1 || second != 2 || third != 3+LineageJump || fourth != 1+LineageJump ||
		key.ID != 1+2*LineageJump {
		t.Errorf("ids %d, %d, %d, %d, %d", first, second, third, fourth, key.ID)
	}
	if _, there := r.machine.Resources().Effective(ResourceKey{1, second}); there {
		t.Error("a resource of a dropped node is found")
	}
	if r.machine.Resources().Rates(nil, ResourceKey{2, 77}) != nil {
		t.Error("a resource that never was is found")
	}
}

// list is a listing in pages that look at a few resources each, sorted.
func (r *rig) list(l ResourceListing, most int) []string {
	r.t.Helper()
	var paths []string
	for from := ResourceID(0); ; {
		page, answer := r.machine.Resources().List(Caller{}, l, from, most)
		if !answer.OK() {
			return []string{answer.String()}
		}
		if len(page.Paths) > most {
			r.t.Errorf("%d paths on a page of %d", len(page.Paths), most)
		}
		paths = append(paths, page.Paths...)
		if from = page.Next; from == 0 {
			return slices.Sorted(slices.Values(paths))
		}
	}
}

func TestListResources(t *testing.T) {
	r := resourceRig(t)
	all := []string{"a", "a-b", "a/b", "a/b/c", "b", "b/b"}
	for _, path := range []string{"b", "a", "a/b", "b/x", "a-b", "a/b/c", "b/b"} {
		r.is(r.create(path, ofRate(1, "", "")), "SUCCESS")
	}
	r.is(r.drop("b/x"), "SUCCESS")
	node := pathOf("/local/n")
	for most := 1; most < 9; most++ {
		for _, c := range []struct {
			listing ResourceListing
			want    []string
		}{
			{ResourceListing{Path: node}, []string{"a", "a-b", "b"}},
			{ResourceListing{Path: node, Recursive: true}, all},
			{ResourceListing{Path: node, Resource: "a"}, []string{"a"}},
			{ResourceListing{Path: node, Resource: "a", Recursive: true}, []string{"a", "a/b", "a/b/c"}},
			{ResourceListing{Path: node, Resource: "a/b/c", Recursive: true}, []string{"a/b/c"}},
			{ResourceListing{Path: node, Resource: "x"},
				[]string{"NOT_FOUND [0/1] Resource with path \"x\" doesn't exist."}},
			{ResourceListing{Path: node, Resource: "x", Recursive: true},
				[]string{"NOT_FOUND [0/1] Resource with path \"x\" doesn't exist."}},
			{ResourceListing{Path: pathOf("/local")},
				[]string{"BAD_REQUEST [0/1] Path is not a coordination node path."}},
		} {
			if got := r.list(c.listing, most); !slices.Equal(got, c.want) {
				t.Errorf("%+v, %d a page: %q, want %q", c.listing, most, got, c.want)
			}
		}
	}
	n := r.machine.nodes[1]
	r.lax = true
	for i := range 3 * shelfBlock {
		n.addResource(fmt.Sprintf("b/%d", i), ofRate(1, "", ""), lineage{})
	}
	for _, most := range []int{shelfBlock - 1, shelfBlock, shelfBlock + 1} {
		if got := r.list(ResourceListing{Path: node, Recursive: true},
			most); len(got) != len(all)+3*shelfBlock {
			t.Errorf("%d paths, %d a page", len(got), most)
		}
	}
}

// Where access is controlled, changing needs the right to update, and looking that to select.
func TestResourcesAreAuthorized(t *testing.T) {
	r := resourceRig(t)
	r.run(&AddUser{Name: "root", PasswordHash: "h"})
	for subject, name := range map[string]string{"reader": "ydb.granular.select_row",
		"writer": "ydb.granular.update_row"} {
		r.run(&ModifyPermissions{Path: pathOf("/local/n"), Change: scheme.PermissionsChange{
			Actions: []scheme.Action{{Kind: scheme.Grant, Subject: subject, Names: []string{name}}}}})
	}
	node := pathOf("/local/n")
	for _, c := range []struct {
		subject      string
		reads, write bool
	}{{"root", true, true}, {"reader", true, false}, {"writer", false, true}, {"", false, false},
		{"eve", false, false}} {
		by := Caller{Subject: c.subject, Enforced: true}
		want := func(what string, may bool, got outcome.Outcome) {
			t.Helper()
			if denied := got.Status == outcome.Unauthorized; denied == may {
				t.Errorf("%s by %q: %s", what, c.subject, got)
			}
		}
		want("create", c.write, r.outcome(&CreateResource{Caller: by, Path: node, Resource: "r",
			ResourceProperties: ofRate(1, "", "")}))
		want("alter", c.write, r.outcome(&AlterResource{Caller: by, Path: node, Resource: "r",
			ResourceProperties: ofRate(2, "", "")}))
		_, answer := r.machine.Resources().Describe(by, node, "r")
		want("describe", c.reads, answer)
		_, answer = r.machine.Resources().List(by, ResourceListing{Path: node}, 0, 10)
		want("list", c.reads, answer)
		want("drop", c.write, r.outcome(&DropResource{Caller: by, Path: node, Resource: "r"}))
	}
}

func TestCanonicalResourcePath(t *testing.T) {
	for path, want := range map[string]bool{"": true, "a": true, "a/b": true, "/a": false, "a/": false,
		"a//b": false, "/": false, "//": false} {
		if CanonicalResourcePath(path) != want {
			t.Errorf("%q is canonical: %v", path, !want)
		}
	}
}

// Every server hears when what counts for resources changes.
func TestResourceEffects(t *testing.T) {
	r := resourceRig(t)
	kinds := func(c Command) []EffectKind {
		r.index++
		var kinds []EffectKind
		for _, e := range r.machine.Apply(r.index, r.term, c) {
			if e.Node == 1 {
				kinds = append(kinds, e.Kind)
			}
		}
		return kinds
	}
	node := pathOf("/local/n")
	for _, c := range []struct {
		command Command
		want    []EffectKind
	}{
		{&CreateResource{Path: node, Resource: "r", ResourceProperties: ofRate(1, "", "")}, nil},
		{&AlterResource{Path: node, Resource: "r"}, nil}, // refused
		{&AlterResource{Path: node, Resource: "r", ResourceProperties: ofRate(2, "", "")},
			[]EffectKind{EffectResourceAltered}},
		{&DropResource{Path: node, Resource: "x"}, nil},
		{&AlterNode{Path: node, Config: NodeConfig{RateLimiterCountersMode: CountersDetailed}},
			[]EffectKind{EffectResourceAltered}},
		{&AlterNode{Path: node, Config: NodeConfig{SelfCheckPeriodMillis: 700}}, nil},
		{&DropResource{Path: node, Resource: "r"}, []EffectKind{EffectResourceDropped}},
		{&AlterNode{Path: node, Config: NodeConfig{RateLimiterCountersMode: 1}}, nil}, // all are dropped
		{&DropNode{Path: node}, []EffectKind{EffectNodeDropped}},
	} {
		if got := kinds(c.command); !slices.Equal(got, c.want) {
			t.Errorf("%#v: effects %v, want %v", c.command, got, c.want)
		}
	}
}
