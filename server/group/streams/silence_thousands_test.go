package streams

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coordd/coordd/internal/testmode"
)

const (
	// silenceThousands is how many clients make the walk over the streams long, as on a server that is full.
	silenceThousands = 2000
	// silenceThousandsSeed is of a history in which the relay comes back just when the sessions behind it
	// begin to end: some clients are told that theirs are over while others go on.
	silenceThousandsSeed = 2
)

// TestSilenceOfThousands plays a history with as many streams as a server has in earnest: it is long between
// the first stream that joins a relay and the last, and what ends together is many commands.
func TestSilenceOfThousands(t *testing.T) {
	testmode.WithoutRace(t)
	oneGoroutine(t)
	r := newSilenceRun(&choices{random: rand.New(rand.NewPCG(silenceThousandsSeed, 4))}, false,
		silenceThousands)
	r.play()
	if err := r.problem(); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(r.history, "\n"))
	}
	ended := 0
	for _, c := range r.clients {
		if c.expired != 0 {
			ended++
		}
	}
	if ended == 0 || ended == len(r.clients) {
		t.Errorf("%d sessions of %d ended: the history is not what it was chosen for", ended, len(r.clients))
	}
}
