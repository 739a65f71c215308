package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// limiterPair is the model and the machine, which are asked for the same.
type limiterPair struct {
	t       *testing.T
	random  *rand.Rand
	model   Limiter
	machine *coordination.Machine
	node    scheme.Path
	index   coordination.Index
	log     []string
}

func answerOf(o outcome.Outcome) Answer {
	a := Answer{Status: o.Status.String()}
	if len(o.Issues) > 0 {
		a.Text = o.Issues[0].Message
	}
	return a
}

func (p *limiterPair) apply(c coordination.Command) Answer {
	p.index++
	for _, e := range p.machine.Apply(p.index, 1, c) {
		if e.Kind == coordination.EffectCallDone {
			return answerOf(e.Outcome)
		}
	}
	p.t.Fatalf("%#v has no answer", c)
	return Answer{}
}

func (p *limiterPair) compare(what string, model, machine any) {
	p.log = append(p.log, fmt.Sprintf("%s: %v", what, model))
	if fmt.Sprint(model) != fmt.Sprint(machine) {
		p.t.Errorf("%s\nthe model: %v\ncoordd: %v", strings.Join(p.log[max(0, len(p.log)-12):], "\n"), model,
			machine)
	}
}

// path is one of few, and sometimes a wrong one.
func (p *limiterPair) path() string {
	elements := []string{"a", "b", "B", "0.#", "x:-_"}
	if p.random.IntN(20) == 0 {
		return []string{"", "a b", "ä", "a\x00", "missing/a", "a/b/c/missing"}[p.random.IntN(6)]
	}
	path := elements[p.random.IntN(len(elements))]
	for range p.random.IntN(4) {
		path += "/" + elements[p.random.IntN(2)]
	}
	return path
}

func (p *limiterPair) settings() Settings {
	number := func(usual ...float64) float64 {
		if p.random.IntN(25) == 0 {
			return []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300, math.MaxFloat64,
				math.SmallestNonzeroFloat64}[p.random.IntN(7)]
		}
		return usual[p.random.IntN(len(usual))]
	}
	return Settings{number(0, 5, 10, 100), number(0, 0, 2), number(0, 0, 1, -1), number(0, 0, 0.5, 1), ""}
}

func (s Settings) properties() coordination.ResourceProperties {
	return coordination.ResourceProperties{MaxUnitsPerSecond: coordination.RealOf(s.Rate),
		MaxBurstSizeCoefficient: coordination.RealOf(s.Burst),
		PrefetchCoefficient:     coordination.RealOf(s.Prefetch),
		PrefetchWatermark:       coordination.RealOf(s.Watermark)}
}

func (p *limiterPair) step() {
	path := p.path()
	switch p.random.IntN(10) {
	case 0, 1, 2, 3:
		set := p.settings()
		p.compare(fmt.Sprintf("create %q %v", path, set), p.model.Create(path, set),
			p.apply(&coordination.CreateResource{Path: p.node, Resource: path,
				ResourceProperties: set.properties()}))
	case 4, 5:
		set := p.settings()
		p.compare(fmt.Sprintf("alter %q %v", path, set), p.model.Alter(path, set),
			p.apply(&coordination.AlterResource{Path: p.node, Resource: path,
				ResourceProperties: set.properties()}))
	case 6:
		p.compare(fmt.Sprintf("drop %q", path), p.model.Drop(path),
			p.apply(&coordination.DropResource{Path: p.node, Resource: path}))
	case 7:
		want, wanted := p.model.Describe(path)
		got, answer := p.machine.Resources().Describe(coordination.Caller{}, p.node, path)
		p.compare(fmt.Sprintf("describe %q", path), wanted, answerOf(answer))
		p.compare("its settings", want, Settings{got.MaxUnitsPerSecond.Float(),
			got.MaxBurstSizeCoefficient.Float(), got.PrefetchCoefficient.Float(),
			got.PrefetchWatermark.Float(), string(got.MoreSettings)})
	case 8:
		recursive := p.random.IntN(2) == 0
		if p.random.IntN(2) == 0 {
			path = ""
		}
		want, wanted := p.model.List(path, recursive)
		got, answer := p.list(path, recursive)
		p.compare(fmt.Sprintf("list %q, recursive: %v", path, recursive), wanted, answerOf(answer))
		p.compare("the list", want, got)
	default:
		for _, r := range p.model.resources {
			_, e, found := p.machine.Resources().Find(p.node, r.path)
			rate, prefetch, watermark := p.model.Effective(r.path)
			p.compare(fmt.Sprintf("effective %q", r.path), []any{true, rate, prefetch, watermark},
				[]any{found, e.Rate, e.Prefetch, e.Watermark})
		}
	}
}

// list reads pages of random sizes.
func (p *limiterPair) list(path string, recursive bool) (paths []string, answer outcome.Outcome) {
	l := coordination.ResourceListing{Path: p.node, Resource: path, Recursive: recursive}
	for from := coordination.ResourceID(0); ; {
		var page coordination.ResourcePage
		if page, answer = p.machine.Resources().List(coordination.Caller{}, l, from,
			1+p.random.IntN(5)); !answer.OK() {
			return nil, answer
		}
		paths = append(paths, page.Paths...)
		if from = page.Next; from == 0 {
			slices.Sort(paths)
			return paths, answer
		}
	}
}

// TestResources compares random calls about resources on the model and on the machine.
func TestResources(t *testing.T) {
	for seed := range uint64(300) {
		machine, err := coordination.NewMachine("/local", coordination.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		p := &limiterPair{t: t, random: rand.New(rand.NewPCG(seed, 18)), machine: machine,
			node: scheme.SplitLoose("/local/n")}
		p.compare("create the node", done, p.apply(&coordination.CreateNode{Path: p.node}))
		for range 300 {
			p.step()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		if err := machine.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}
