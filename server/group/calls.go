package group

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/group/relaypb"
	"github.com/coordd/coordd/server/group/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ownWritePatience is how long the answer to a call may wait for this server to have applied it.
const ownWritePatience = time.Second

// attempt is a call about the path tree or the users on its way to a leader. It is the same for all leaders
// that are asked, but for repeated.
type attempt struct {
	command  coordination.Command
	encoded  []byte             // command in the stored format; nil as long as it goes to no other server
	since    coordination.Index // applied here when the call came
	repeated bool               // a leader may have had it
}

// call is a unary request that waits for the group: a command, or a read of the machine.
type call struct {
	attempt *attempt
	read    func(c *core) outcome.Outcome
	rows    int             // of the machine that read looks at, at most
	done    chan callAnswer // capacity 1
	claimed atomic.Bool     // by the group, or by its caller, who waits no more: whoever comes first has it
}

type callAnswer struct {
	outcome outcome.Outcome
	err     error
}

// The ways in which a leader does not answer a command. They travel between servers as they are.
var (
	// errLeaderGone: nobody here knows what becomes of the command.
	errLeaderGone = status.Error(codes.Aborted, "The leader changed while the command was under way")
)

// callErrors are what those who wait make of a call's end.
var callErrors = [...]error{
	coordination.CallAnswered: nil,
	coordination.CallNotLed:   streams.ErrNotLeading,
	coordination.CallLost:     errLeaderGone,
}

// Execute runs a command on the leader, wherever it is, and waits for one if there is none. A command that is
// refused by what is committed already does not come into the log. A call whose leader goes is repeated to
// the next one, under the same name, so that it is executed once and gets its one outcome. Errors:
// ErrStopped, and when ctx ends its own, which is ErrNoLeader, ErrNotAsked or ErrUnknown as well unless a
// leader has the call at that moment.
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

// refuses answers a call that is refused by what this server has applied, and reports whether it did: the call
// never comes into the log. Only a leader that a majority has confirmed lately has applied every change that
// was acknowledged, such as a permission. A repeated call may have been executed: the log has its outcome. The
// turn is held.
func (g *core) refuses(c *call) bool {
	if g.link == nil || c.attempt.repeated || !g.lease.MaySpeak() {
		return false
	}
	answer, refused := g.replica.Machine().Refusal(c.attempt.command)
	if refused {
		c.done <- callAnswer{outcome: answer}
	}
	return refused
}

// notAsked adds ErrNotAsked to the error of a context, unless it says ErrNoLeader already.
func notAsked(err error) error {
	if errors.Is(err, ErrNoLeader) {
		return err
	}
	return &unasked{err, ErrNotAsked}
}

// try asks the leader, if there is one. Errors: errNotLeading, errLeaderGone, ErrStopped, that of ctx, with
// errWithdrawn if the leader here never looked at the call.
func (g *Group) try(ctx context.Context, a *attempt) (outcome.Outcome, error) {
	if g.Leads() {
		answer, err := g.executeHere(ctx, a)
		if !errors.Is(err, streams.ErrNotLeading) {
			return answer, err
		}
	}
	if conn := g.uplink.Conn(); conn != nil {
		return g.executeThere(ctx, relaypb.NewRelayClient(conn), a)
	}
	return outcome.Outcome{}, streams.ErrNotLeading
}

// executeThere has another server run a command that is taken to lead. Errors: errNotLeading, errLeaderGone,
// that of ctx.
func (g *Group) executeThere(ctx context.Context, leader relaypb.RelayClient, a *attempt) (outcome.Outcome, error) {
	if a.encoded == nil {
		a.encoded = codec.AppendCommand(nil, a.command)
	}
	response, err := leader.Execute(ctx,
		&relaypb.ExecuteRequest{Command: a.encoded, Since: uint64(a.since), Repeated: a.repeated})
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

// seeOwnWrite has this server, too, apply what the leader has just done, so that whoever asked finds it here:
// a login with the new password, say. Without a leader that is not waited for long.
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

// passedOn is the encoding of a command that came from another server, nil for all others. It is not encoded
// anew: the codec decodes nothing but the one encoding of a command. The turn is held.
func (g *core) passedOn(c coordination.Command) []byte {
	if name, is := coordination.CallOf(c); is {
		for _, waiting := range g.replica.Waiting(name) {
			if a := waiting.attempt; a.command == c && a.encoded != nil {
				return a.encoded
			}
		}
	}
	return nil
}

// executeHere runs a command if this server leads, and returns its outcome once it is durable and applied. If
// ctx ends earlier the command may still be executed. Errors: errNotLeading, errLeaderGone, ErrStopped, that
// of ctx.
func (g *Group) executeHere(ctx context.Context, a *attempt) (outcome.Outcome, error) {
	sent := *a
	return g.await(ctx, &call{attempt: &sent, done: make(chan callAnswer, 1)})
}

// errWithdrawn is the end of a call that its caller's time ran out for, and that the group will never look
// at.
var errWithdrawn = errors.New("the group did not come to the call")

// await returns the answer to a call. Errors: those of the answer, ErrStopped, that of ctx, with errWithdrawn
// if the call was never claimed.
//
// A read that was claimed is awaited to its end, although ctx is done: it works with what its caller has, and
// the caller goes on with that. It is quick, and it runs in the turn that claims it.
func (g *Group) await(ctx context.Context, c *call) (outcome.Outcome, error) {
	if !g.queue.room.Acquire(ctx, streams.EventBytes) {
		return outcome.Outcome{}, errors.Join(errWithdrawn, ctx.Err())
	}
	g.queue.put(event{call: c})
	g.queue.room.Change(-streams.EventBytes)
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
		case <-g.over: // nothing is read any more
			return outcome.Outcome{}, streams.ErrStopped
		}
	case <-g.over:
		return outcome.Outcome{}, streams.ErrStopped
	}
}

// relayService is what the servers of a cluster say to each other for their clients.
type relayService struct {
	relaypb.UnimplementedRelayServer
	group *Group
}

// Exchange implements relaypb.RelayServer.
func (s relayService) Exchange(rpc relaypb.Relay_ExchangeServer) error {
	return s.group.relays.Exchange(rpc)
}

// Permit implements relaypb.RelayServer.
func (s relayService) Permit(rpc relaypb.Relay_PermitServer) error {
	return s.group.relays.GivePermit(rpc)
}

// Execute implements relaypb.RelayServer.
func (s relayService) Execute(ctx context.Context, r *relaypb.ExecuteRequest) (*relaypb.ExecuteResponse, error) {
	return s.group.executeForPeer(ctx, r)
}

// Services registers what the servers of a cluster say to each other about the group.
func (g *Group) Services(registrar grpc.ServiceRegistrar) {
	relaypb.RegisterRelayServer(registrar, relayService{group: g})
	relaypb.RegisterDigestsServer(registrar, g.comparer)
}
