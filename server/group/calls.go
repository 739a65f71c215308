package group

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group/relaypb"
	"github.com/coordd/coordd/server/group/streams"
)

// ownWritePatience bounds the wait of an answer until this server has applied the command that the leader has executed.
const ownWritePatience = time.Second

// Execute runs a command on the leader, wherever it is, and waits for a leader if necessary. A command that the
// present state refuses does not come into the log. A call whose leader goes is repeated to the next one under the same
// name, so that it is executed once and gets its one outcome. Errors: ErrStopped, and when ctx ends its own, which is
// ErrNoLeader, ErrNotAsked or ErrUnknown as well unless a leader has the call at that moment.
func (g *Group) Execute(ctx context.Context,
	build func(coordination.CallID) coordination.Command) (outcome.Outcome, error) {
	a := &attempt{command: build(coordination.CallID{Nonce: streams.Nonce()}),
		since: coordination.Index(g.applied.Load())}
	var answer outcome.Outcome
	var ended error
	err := g.AskLeader(ctx, func(repeated bool) Asked {
		a.repeated = repeated
		answer, ended = g.try(ctx, a)
		switch {
		case errors.Is(ended, errLeaderGone):
			return LeaderGone
		case errors.Is(ended, streams.ErrNotLeading), errors.Is(ended, errWithdrawn) && !g.streams.Led():
			return NotLed
		case errors.Is(ended, errWithdrawn) && !repeated:
			ended = notAsked(ctx.Err())
		case ended != nil && ctx.Err() != nil:
			ended = ctx.Err()
		}
		return Answered
	})
	if err == nil {
		err = ended
	}
	if err != nil {
		return outcome.Outcome{}, err
	}
	return answer, nil
}

// notAsked adds ErrNotAsked to the error of a context, unless it is ErrNoLeader already.
func notAsked(err error) error {
	if errors.Is(err, ErrNoLeader) {
		return err
	}
	return &unasked{err, ErrNotAsked}
}

// try asks the leader, if there is one. Errors: streams.ErrNotLeading, errLeaderGone, ErrStopped, that of ctx, with
// errWithdrawn if the leader here never looked at the call.
func (g *Group) try(ctx context.Context, a *attempt) (outcome.Outcome, error) {
	if g.Leads() {
		answer, err := g.executeHere(ctx, a)
		if !errors.Is(err, streams.ErrNotLeading) {
			return answer, err
		}
	}
	if conn := g.uplink.Conn(); conn != nil {
		return g.executeThere(ctx, conn, a)
	}
	return outcome.Outcome{}, streams.ErrNotLeading
}

// executeThere runs a command on another server, which is taken for the leader. Errors: streams.ErrNotLeading,
// errLeaderGone, that of ctx.
func (g *Group) executeThere(ctx context.Context, leader *grpc.ClientConn, a *attempt) (outcome.Outcome, error) {
	if a.encoded == nil {
		a.encoded = codec.AppendCommand(nil, a.command)
	}
	response := &relaypb.ExecuteResponse{}
	err := peers.Ask(ctx, leader,
		&relaypb.ExecuteRequest{Command: a.encoded, Since: uint64(a.since), Repeated: a.repeated}, response)
	switch code := status.Code(err); {
	case err == nil:
		g.seeOwnWrite(ctx)
		return relaypb.DecodeOutcome(response), nil
	case ctx.Err() != nil:
		return outcome.Outcome{}, ctx.Err()
	case code == codes.FailedPrecondition:
		return outcome.Outcome{}, streams.ErrNotLeading
	case code != codes.InvalidArgument && code != codes.ResourceExhausted:
		return outcome.Outcome{}, errLeaderGone
	case a.repeated: // this leader cannot read the call, but an earlier one may have executed it
		return coordination.CallUnknown, nil
	default: // and another leader would say the same
		return outcome.Because(outcome.Unavailable,
			"The leader refused the call: "+status.Convert(err).Message()), nil
	}
}

// seeOwnWrite waits until this server, too, has applied the command that the leader has just executed, so that the
// caller finds its outcome here: a login with the new password, say. Without a leader it does not wait for long.
func (g *Group) seeOwnWrite(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ownWritePatience)
	defer cancel()
	_ = g.passBarrier(ctx)
}

// executeForPeer runs a command for another server.
func (g *Group) executeForPeer(ctx context.Context, r *relaypb.ExecuteRequest) (*relaypb.ExecuteResponse, error) {
	command, err := codec.DecodeCommand(r.GetCommand())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if _, is := coordination.CallOf(command); !is {
		return nil, status.Errorf(codes.InvalidArgument, "%T is not for a call", command)
	}
	if !g.Leads() {
		return nil, streams.ErrNotLeading
	}
	ctx, cancel := context.WithTimeout(ctx, g.config.CallPatience) // if the other server gives no bound
	defer cancel()
	answer, err := g.executeHere(ctx, &attempt{command: command, encoded: r.GetCommand(),
		since: coordination.Index(r.GetSince()), repeated: r.GetRepeated()})
	switch {
	case errors.Is(err, streams.ErrStopped):
		return nil, errLeaderGone
	case err != nil && ctx.Err() != nil:
		return nil, status.FromContextError(err).Err()
	case err != nil:
		return nil, err
	}
	return relaypb.EncodeOutcome(answer), nil
}

// executeHere runs a command if this server leads, and returns its outcome once it is durable and applied. If
// ctx ends earlier the command may still be executed. Errors: streams.ErrNotLeading, errLeaderGone, ErrStopped, that
// of ctx.
func (g *Group) executeHere(ctx context.Context, a *attempt) (outcome.Outcome, error) {
	sent := *a
	return g.await(ctx, &call{attempt: &sent, done: make(chan callAnswer, 1)})
}

// errWithdrawn is the end of a call whose time ran out in the queue: no turn will look at it.
var errWithdrawn = errors.New("the group did not come to the call")

// await returns the answer to a call. Errors: those of the answer, ErrStopped, that of ctx, with errWithdrawn
// if the call was never claimed.
//
// A read that was claimed is awaited to its end, although ctx is done: it writes into variables of its caller. It is
// quick, and it runs in the turn that claims it.
func (g *Group) await(ctx context.Context, c *call) (outcome.Outcome, error) {
	if !g.queue.room.Acquire(ctx, streams.EventBytes) {
		return outcome.Outcome{}, errors.Join(errWithdrawn, ctx.Err())
	}
	g.queue.put(event{call: c})
	g.queue.room.Release(streams.EventBytes)
	g.kick()
	select {
	case a := <-c.done:
		return a.outcome, a.err
	case <-ctx.Done():
		if !c.claimed.Swap(true) {
			return outcome.Outcome{}, errors.Join(errWithdrawn, ctx.Err())
		}
		if c.read == nil {
			return outcome.Outcome{}, ctx.Err()
		}
		select {
		case a := <-c.done:
			return a.outcome, a.err
		case <-g.over: // there are no turns any more
			return outcome.Outcome{}, streams.ErrStopped
		}
	case <-g.over:
		return outcome.Outcome{}, streams.ErrStopped
	}
}

// register registers the questions and streams between the servers of a cluster about the group.
func (g *Group) register(services *peers.Services) {
	peers.Answer(services, g.executeForPeer)
	peers.Answer(services, g.comparer.Compare)
	g.relays.Register(services)
}

// leaderRetry is the pause before a call asks again without news of another leader: the leader may still be there, or
// be one that this server's streams do not follow yet.
const leaderRetry = 100 * time.Millisecond

// Asked is the end of an attempt to ask the leader.
type Asked int

const (
	// Answered ends the asking, whatever the answer is.
	Answered Asked = iota
	// NotLed: no leader was asked. This attempt has executed nothing, and will not.
	NotLed
	// LeaderGone: the leader lost the leadership during the attempt, which may or may not be executed.
	LeaderGone
)

// The ends of a call whose ctx ended before a leader answered. Each comes with the error of ctx.
var (
	// ErrNoLeader: no leader was asked, and none will be.
	ErrNoLeader = errors.New("there is no leader to ask")
	// ErrNotAsked: this server leads, but did not come to the call, and will not.
	ErrNotAsked = errors.New("the server did not come to the call")
	// ErrUnknown: a leader was asked and lost the leadership; the call may or may not be executed.
	ErrUnknown = errors.New("the leader went away during the call")
)

// unasked is the error of ctx for a call that no leader had when it ended; why is one of the errors above.
type unasked struct {
	error
	why error
}

// Unwrap returns both errors.
func (e *unasked) Unwrap() []error { return []error{e.error, e.why} }

// AskLeader makes attempts until one is Answered. After each of the others it waits for news of another leader, for
// leaderRetry at most. repeated reports whether an earlier attempt may be executed, because its end was LeaderGone. ctx
// bounds the waiting; attempts bound themselves. Errors: ErrStopped, that of ctx, which is ErrNoLeader or ErrUnknown as
// well.
func (g *Group) AskLeader(ctx context.Context, attempt func(repeated bool) Asked) error {
	repeated := false
	for {
		news := g.uplink.AwaitNews() // before the attempt looks for the leader, so that no news is missed
		switch attempt(repeated) {
		case Answered:
			return nil
		case LeaderGone:
			repeated = true
		}
		if ctx.Err() != nil {
			return withoutLeader(ctx, repeated)
		}
		select {
		case <-news:
		case <-time.After(leaderRetry):
		case <-g.over:
			return streams.ErrStopped
		case <-ctx.Done():
			return withoutLeader(ctx, repeated)
		}
	}
}

// withoutLeader returns the error of a call that no leader had when ctx ended.
func withoutLeader(ctx context.Context, repeated bool) error {
	if repeated {
		return &unasked{ctx.Err(), ErrUnknown}
	}
	return &unasked{ctx.Err(), ErrNoLeader}
}
