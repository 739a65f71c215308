package conformance

import (
	"context"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
)

// Need is something that not every target offers.
type Need string

// What scripts may need.
const (
	// NeedClock: time passes as fast as the script says.
	NeedClock Need = "clock"
	// NeedRestart: the leader can be restarted.
	NeedRestart Need = "restart"
	// NeedHold: what the log holds can be kept from being applied for a while.
	NeedHold Need = "hold"
	// NeedLimits: the limits of a node can be lowered.
	NeedLimits Need = "limits"
	// NeedServers: there is more than one server.
	NeedServers Need = "servers"
	// NeedWire: a real connection, on which anything can be sent.
	NeedWire Need = "wire"
	// NeedUsers: there are users called alice and bob whose rights count, besides an administrator.
	NeedUsers Need = "users"
	// NeedOpen: calls without a token are served.
	NeedOpen Need = "open"
	// NeedSameLeader: the leader changes only where the script changes it.
	NeedSameLeader Need = "leader"
)

// longestRealWait bounds all waits of a script together on a target without NeedClock.
const longestRealWait = 1500 * time.Millisecond

// Target is something that scripts run on.
type Target interface {
	// Offers reports whether scripts with this need can run here.
	Offers(Need) bool
	// Open prepares the place for one script: an empty directory. name is the script's.
	Open(ctx context.Context, name string, limits coordination.Limits) (Environment, error)
}

// Environment is where one script runs. It is used from one goroutine, but for Check: where things come
// later, Next may be called meanwhile.
type Environment interface {
	// Database is the path of the database, Directory that of the script's own directory below it.
	Database() string
	Directory() string
	// Call makes a unary call, on behalf of the user that asUser has put into ctx. A nil database sends no
	// x-ydb-database.
	Call(ctx context.Context, request proto.Message, database *string) (*Ydb_Operations.Operation, error)
	// Connect opens a stream.
	Connect(ctx context.Context, options StreamOptions) (Stream, error)
	// Next returns what has come on any stream. It waits for that until ctx is done, unless nothing can come
	// by itself; then, too, it returns false.
	Next(ctx context.Context) (Event, bool)
	// Pass lets time pass, at most most; it may stop earlier because something has happened. It returns how
	// much did.
	Pass(ctx context.Context, most time.Duration) time.Duration
	// Patience limits the wait for what should come; 0 where the consequences of a message do not come later.
	Patience() time.Duration
	// Restart restarts the leader, Hold keeps back what is written, Release lets it go on.
	Restart(ctx context.Context) error
	Hold()
	Release()
	// Check is called after every step, and finds what a client cannot see. It reports whether it has
	// disturbed what goes on, so that answers must be waited for before the next step.
	Check(ctx context.Context) (disturbed bool, err error)
	// Close removes the directory.
	Close(ctx context.Context) error
}

// StreamOptions are the options of a new stream.
type StreamOptions struct {
	Server string // which server, "" for the first
	User   string // on whose behalf, "" for an administrator
}

type userKey struct{}

// asUser returns a context in which calls are made on behalf of a user; "" is an administrator.
func asUser(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, userKey{}, name)
}

func userOf(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}

// Stream is the client's side of one Session stream.
type Stream interface {
	// Send sends a message. Errors of the stream are not returned here: they come as an Event.
	Send(message []byte) error
	// CloseSend closes the client's side.
	CloseSend() error
	// Cancel gives the stream up. Nothing comes from it any more.
	Cancel()
}

// Event is a message that has come on a stream, or its end.
type Event struct {
	Stream  Stream
	Message *Ydb_Coordination.SessionResponse // nil at the end
	Status  *status.Status                    // how the stream ended
}
