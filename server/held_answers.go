package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/clock"
)

const (
	// unservedHold is the delay of the answer to a call that is not served here: programs that use such a service try
	// again without a pause.
	unservedHold = 100 * time.Millisecond
	// maxHeld and maxHeldPerConnection bound how many answers are held at once, by the server and for one
	// connection. Beyond them an answer is given at once.
	maxHeld              = 1_000
	maxHeldPerConnection = 32
)

// heldAnswers holds answers back.
type heldAnswers struct {
	clock    clock.Clock
	released chan struct{} // closed when nothing is held any more
	once     sync.Once

	mutex sync.Mutex
	count int
	by    map[string]int // remote address of a connection; those without a held answer are not in it
}

func newHeldAnswers(clock clock.Clock) *heldAnswers {
	return &heldAnswers{clock: clock, released: make(chan struct{}), by: make(map[string]int)}
}

// hold returns once the answer to a call may be given: after unservedHold, when the call is over, when the
// server stops, or at once if too many are held already.
func (h *heldAnswers) hold(ctx context.Context) {
	connection := ""
	if p, known := peer.FromContext(ctx); known {
		connection = p.Addr.String()
	}
	if !h.enter(connection) {
		return
	}
	defer h.leave(connection)
	due := make(chan struct{})
	timer := h.clock.AfterFunc(unservedHold, func() { close(due) })
	defer timer.Stop()
	select {
	case <-due:
	case <-ctx.Done():
	case <-h.released:
	}
}

// enter counts an answer that is to be held, and reports whether there is room for it.
func (h *heldAnswers) enter(connection string) bool {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.count >= maxHeld || h.by[connection] >= maxHeldPerConnection {
		return false
	}
	h.count++
	h.by[connection]++
	return true
}

func (h *heldAnswers) leave(connection string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.count--
	if h.by[connection]--; h.by[connection] == 0 {
		delete(h.by, connection)
	}
}

// release lets all answers go, and holds none from then on.
func (h *heldAnswers) release() { h.once.Do(func() { close(h.released) }) }

// unary holds back what a service of this server answers about a method that it does not have.
func (h *heldAnswers) unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, request)
	if status.Code(err) == codes.Unimplemented {
		h.hold(ctx)
	}
	return answer, err
}
