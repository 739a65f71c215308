package rings

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
)

// TestFailOverCalls changes the leader again and again while calls are in flight: before they reach the log,
// in it, and behind it. Every call must get the outcome that it has where the leader never changes: executed
// once, in its turn.
func TestFailOverCalls(t *testing.T) {
	forHistories(t, failOverCallsRun)
}

// callsRun is a world whose leaders change, and one in which everything is executed at once.
type callsRun struct {
	random       *rand.Rand
	world, quiet *World
	made         []madeCall
}

type madeCall struct {
	call *Call
	what string
	want outcome.Outcome
}

func failOverCallsRun(seed uint64) error {
	r := &callsRun{random: rand.New(rand.NewPCG(seed, 2))}
	var err error
	if r.world, err = New(Options{Check: true}); err != nil {
		return err
	}
	if r.quiet, err = New(Options{}); err != nil {
		return err
	}
	r.world.Hold()
	for range 80 {
		switch r.random.IntN(6) {
		case 0:
			r.world.FailOver(r.random.IntN(4))
			r.world.Hold()
		case 1:
			r.world.Release()
			r.world.Hold()
		default:
			r.ask()
		}
	}
	r.world.FailOver(r.random.IntN(4))
	r.world.Release()
	for i, c := range r.made {
		if got := c.call.Outcome(); !reflect.DeepEqual(got, c.want) {
			return fmt.Errorf("call %d, %s: got %v, want %v", i, c.what, got, c.want)
		}
	}
	return nil
}

// ask makes a call that succeeds or not depending on what is there, and changes what is there if it succeeds.
func (r *callsRun) ask() {
	path := []string{"local", []string{"a", "b"}[r.random.IntN(2)]}
	if r.random.IntN(2) == 0 {
		path = append(path, "c")
	}
	kind := r.random.IntN(7)
	build := func(call coordination.CallID) coordination.Command {
		switch kind {
		case 0:
			return &coordination.CreateNode{CallID: call, Path: path}
		case 1:
			return &coordination.DropNode{CallID: call, Path: path}
		case 2:
			return &coordination.AlterNode{CallID: call, Path: path}
		case 3:
			return &coordination.RemoveDirectory{CallID: call, Path: path}
		case 4:
			return &coordination.AddUser{CallID: call, Name: path[1], PasswordHash: "hash"}
		case 5:
			return &coordination.RemoveUser{CallID: call, Name: path[1]}
		default:
			return &coordination.MakeDirectory{CallID: call, Path: path}
		}
	}
	want := r.quiet.Call(build)
	r.made = append(r.made, madeCall{r.world.Begin(build),
		fmt.Sprintf("%T %v", build(coordination.CallID{}), path), want})
}
