package world

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/conformance/sim/plan"
)

func TestChangesOfAServerFollowEachOther(t *testing.T) {
	w := newWorld(plan.Plan{Servers: []plan.Server{{Name: "s1"}, {Name: "s2"}}}, Options{Dir: t.TempDir()})
	synctest.Test(t, func(t *testing.T) {
		var begun []string
		release := make(chan struct{})
		ask := func(server int, name string) {
			w.do(func() {
				w.change(w.servers[server], func(context.Context) error {
					w.do(func() { begun = append(begun, name) })
					<-release
					return nil
				})
			})
			synctest.Wait()
		}
		want := func(names ...string) {
			t.Helper()
			if len(begun) != len(names) {
				t.Errorf("begun: %v, should be %v", begun, names)
			}
		}
		ask(0, "first")
		ask(0, "second")
		want("first")
		ask(1, "other server's")
		want("first", "other server's")
		release <- struct{}{}
		release <- struct{}{}
		synctest.Wait()
		want("first", "other server's", "second")
		ask(0, "too late")
		w.do(func() { w.healed = true })
		ask(0, "replacement")
		release <- struct{}{}
		synctest.Wait()
		want("first", "other server's", "second", "replacement")
		close(release)
	})
}
