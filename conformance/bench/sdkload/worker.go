package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3"
	"github.com/ydb-platform/ydb-go-sdk/v3/balancers"
	"github.com/ydb-platform/ydb-go-sdk/v3/config"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination"
	"github.com/ydb-platform/ydb-go-sdk/v3/coordination/options"
	"github.com/ydb-platform/ydb-go-sdk/v3/trace"
	"google.golang.org/grpc"
)

const (
	locks       = 2 // exclusive ephemeral semaphores that all workers share
	sharedLimit = 2 // of the semaphore sdk-shared, which the test creates
	sharedName  = "sdk-shared"
	patience    = time.Minute // for one operation; a cluster without a leader for so long is a problem
	// startTimeout limits the wait for the answer to a start, before another server is tried.
	startTimeout = time.Second
)

// worker has a session of its own on connections of its own, and does one thing after the other.
type worker struct {
	settings
	journal  *journal
	name     string
	random   *rand.Rand
	pulse    pulse
	value    uint64 // of the last update that was begun
	number   int    // of semaphores created and deleted
	sessions int    // so far
	watch    *watch
	way      *way
	session  atomic.Uint64 // id of the last one
}

// errSessionLost ends the work of one session.
var errSessionLost = errors.New("the session has ended")

func newWorker(s settings, j *journal, name string, seed, number uint64) *worker {
	w := &worker{settings: s, journal: j, name: name, way: &way{servers: s.servers, home: s.home},
		random: rand.New(rand.NewPCG(seed, number))}
	w.pulse.timeout = s.sessionTimeout
	return w
}

func (w *worker) tell(s coordination.Session, e event) {
	e.Worker = w.name
	if s != nil {
		e.Session = s.SessionID()
	}
	w.journal.write(e)
}

// run works in one session after the other until ctx is done.
func (w *worker) run(ctx context.Context, started func()) error {
	for ctx.Err() == nil {
		if err := w.inSession(ctx, started); err != nil && !errors.Is(err, errSessionLost) {
			return fmt.Errorf("worker %s: %w", w.name, err)
		}
	}
	return nil
}

// inSession works in one session until that ends or ctx does.
func (w *worker) inSession(ctx context.Context, started func()) error {
	lost := make(chan struct{})
	var once sync.Once
	w.pulse.reset()
	connection := "grpc://" + w.servers[w.home] + "/local"
	dialer := ydb.With(config.WithGrpcOptions(grpc.WithContextDialer(w.way.dial)))
	db, err := ydb.Open(ctx, connection, ydb.WithBalancer(balancers.SingleConn()), dialer,
		ydb.WithTraceCoordination(trace.Coordination{
			OnSessionReceive: func(
				trace.CoordinationSessionReceiveStartInfo) func(trace.CoordinationSessionReceiveDoneInfo) {
				return func(info trace.CoordinationSessionReceiveDoneInfo) {
					// A Failure is no sign that the session lives.
					if _, failure := info.Response.GetResponse().(*Ydb_Coordination.SessionResponse_Failure_); info.Error == nil && !failure {
						w.pulse.beat()
					}
				}
			},
			OnSessionStarted: func(info trace.CoordinationSessionStartedInfo) {
				w.session.Store(info.SessionID)
				w.journal.write(event{Kind: attached, Worker: w.name, Session: info.SessionID,
					Server: w.way.server()})
			},
			OnSessionStartTimeout: func(trace.CoordinationSessionStartTimeoutInfo) { w.way.leave() },
			OnSessionServerExpire: func(trace.CoordinationSessionServerExpireInfo) {
				w.journal.write(event{Kind: expired, Worker: w.name, Session: w.session.Load(),
					Silence: w.pulse.silence().Nanoseconds()})
				once.Do(func() { close(lost) })
			},
			OnSessionClientTimeout: func(
				trace.CoordinationSessionClientTimeoutInfo) {
				once.Do(func() { close(lost) })
			},
			OnSessionReceiveUnexpected: func(info trace.CoordinationSessionReceiveUnexpectedInfo) {
				w.journal.write(event{Kind: problem, Worker: w.name,
					Text: fmt.Sprintf("message that answers no request: %v", info.Response)})
			},
		}))
	if err != nil {
		return w.notNow(ctx, err)
	}
	// The SDK retries to end a session that is gone until its context is done.
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = db.Close(bounded)
	}()
	s, err := db.Coordination().Session(ctx, w.node,
		options.WithSessionTimeout(w.sessionTimeout),
		options.WithSessionKeepAliveTimeout(w.keepAlive),
		options.WithSessionStartTimeout(startTimeout),
		options.WithSessionReconnectDelay(50*time.Millisecond))
	if err != nil {
		return w.notNow(ctx, err)
	}
	// Operations end with the session, but not with the work: what was begun is brought to its end.
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go func() {
		select {
		case <-lost:
		case <-s.Context().Done():
		case <-working.Done():
		}
		cancel()
	}()
	w.watch = nil
	w.sessions++
	return w.work(ctx, working, s, started)
}

// notNow waits a moment after a server could not be reached.
func (w *worker) notNow(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		w.journal.write(event{Kind: "unreachable", Worker: w.name, Text: err.Error()})
	}
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
	return nil
}

func (w *worker) work(ctx, working context.Context, s coordination.Session, started func()) error {
	if err := w.prepare(working, s); err != nil {
		return w.orLost(working, s, err)
	}
	started()
	pause := time.NewTicker(w.pause)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return w.orLost(working, s, w.finish(working, s))
		case <-pause.C:
		}
		if w.way.homeAgain(ctx) {
			return nil // in a new session, over a new connection
		}
		if err := w.step(working, s); err != nil {
			return w.orLost(working, s, err)
		}
	}
}

// orLost distinguishes an operation that failed because the session ended from one that failed by itself.
func (w *worker) orLost(working context.Context, s coordination.Session, err error) error {
	if err == nil {
		return nil
	}
	if s.Context().Err() != nil { // the SDK gave up, as it does when a stream breaks under its start
		w.tell(s, event{Kind: closed, Text: err.Error()})
		return errSessionLost
	}
	if working.Err() != nil {
		return errSessionLost
	}
	w.tell(s, event{Kind: problem, Text: err.Error()})
	return errSessionLost
}

// own is the semaphore that only this session writes to: a request of the one before may still be on its way.
func (w *worker) own() string { return fmt.Sprintf("sdk-own-%s-%d", w.name, w.sessions) }

// prepare creates the worker's own semaphore and watches it. The SDK hides whether it existed.
func (w *worker) prepare(working context.Context, s coordination.Session) error {
	ctx, cancel := context.WithTimeout(working, patience)
	defer cancel()
	for { // an update of one that is missing looks like any other
		err := s.CreateSemaphore(ctx, w.own(), 1)
		if err == nil {
			return w.watchOwn(ctx, s)
		}
		if !errors.Is(err, coordination.ErrOperationStatusUnknown) {
			return err
		}
	}
}

// step does one thing.
func (w *worker) step(working context.Context, s coordination.Session) error {
	ctx, cancel := context.WithTimeout(working, patience)
	defer cancel()
	switch w.random.IntN(5) {
	case 0:
		return w.update(ctx, s)
	case 1:
		return w.createAndDelete(ctx, s)
	case 2:
		return w.hold(ctx, s, sharedName)
	default:
		return w.hold(ctx, s, fmt.Sprintf("sdk-lock-%d", w.random.IntN(locks)), options.WithEphemeral(true))
	}
}

// hold takes something, learns its order id, keeps it for a moment and gives it back.
func (w *worker) hold(ctx context.Context, s coordination.Session, name string,
	opts ...options.AcquireSemaphoreOption) error {
	count := uint64(1)
	if len(opts) > 0 {
		count = coordination.Exclusive
	}
	lease, err := s.AcquireSemaphore(ctx, name, count, opts...)
	if err != nil {
		return err
	}
	e := event{Kind: held, Name: name, Count: 1, From: monotonic()}
	end := func() {
		e.Until = min(monotonic(), w.pulse.until())
		w.tell(s, e)
	}
	d, err := s.DescribeSemaphore(ctx, name, options.WithDescribeOwners(true))
	if err != nil {
		end()
		return err
	}
	for _, o := range d.Owners {
		if o.SessionID == s.SessionID() {
			e.Order = o.OrderID
		}
	}
	if e.Order == 0 && ctx.Err() == nil && w.pulse.silence() < w.sessionTimeout {
		w.tell(s, event{Kind: problem, Name: name, Text: fmt.Sprintf("acquired, and not an owner: %v", d)})
	}
	select {
	case <-time.After(time.Duration(w.random.IntN(10)) * time.Millisecond):
	case <-ctx.Done():
	}
	end()
	return lease.Release()
}

// update writes the next number and reads it back.
func (w *worker) update(ctx context.Context, s coordination.Session) error {
	w.value++
	if err := s.UpdateSemaphore(ctx, w.own(),
		options.WithUpdateData([]byte(strconv.FormatUint(w.value, 10)))); err != nil {
		return err
	}
	w.tell(s, event{Kind: updated, Name: w.own(), Value: w.value})
	d, err := s.DescribeSemaphore(ctx, w.own())
	if err != nil {
		return err
	}
	if got := number(d.Data); got != w.value {
		return fmt.Errorf("%s holds %d after %d was written", w.own(), got, w.value)
	}
	return w.watch.follow(ctx, w, s)
}

func number(data []byte) uint64 {
	n, _ := strconv.ParseUint(string(data), 10, 64)
	return n
}

// createAndDelete makes a semaphore that nobody else knows, finds it, and removes it.
func (w *worker) createAndDelete(ctx context.Context, s coordination.Session) error {
	w.number++
	name := fmt.Sprintf("sdk-made-%s-%d", w.name, w.number)
	if err := s.CreateSemaphore(ctx, name, 7); err != nil {
		return w.unknown(err)
	}
	w.tell(s, event{Kind: acked, Name: name, Text: "create"})
	d, err := s.DescribeSemaphore(ctx, name)
	if err != nil {
		return err
	}
	if d.Limit != 7 {
		return fmt.Errorf("%s was created, and is %v", name, d)
	}
	if err := s.DeleteSemaphore(ctx, name); err != nil {
		return w.unknown(err)
	}
	w.tell(s, event{Kind: acked, Name: name, Text: "delete"})
	if d, err = s.DescribeSemaphore(ctx, name); err == nil && d.Limit != 0 {
		err = fmt.Errorf("%s was deleted, and is %v", name, d)
	}
	return err
}

// unknown forgives what the SDK says when a stream breaks under a request that it will not repeat.
func (w *worker) unknown(err error) error {
	if errors.Is(err, coordination.ErrOperationStatusUnknown) {
		return nil
	}
	return err
}

// finish makes sure that the last update is there.
func (w *worker) finish(working context.Context, s coordination.Session) error {
	ctx, cancel := context.WithTimeout(working, patience)
	defer cancel()
	return w.update(ctx, s)
}
