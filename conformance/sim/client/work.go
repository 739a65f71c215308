package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coordd/coordd/conformance/model"
	"github.com/coordd/coordd/conformance/sim/plan"
)

// work makes steps until the stream ends.
func (c *Client) work(ctx context.Context, s *stream) error {
	step := map[plan.ClientKind]func(context.Context, *stream) error{plan.Mutex: c.mutex, plan.Counting: c.counting,
		plan.Mixed: c.mixed, plan.Watcher: c.watcher, plan.Thief: c.thief, plan.Short: c.short,
		plan.Hoarder: c.hoarder, plan.Large: c.large, plan.Mute: c.mutex,
		plan.Keeper: c.keeper}[c.plan.Kind]
	if step == nil {
		return fmt.Errorf("no such client: %q", c.plan.Kind)
	}
	for ctx.Err() == nil {
		if c.plan.Requests > 0 && c.request >= uint64(c.plan.Requests) {
			c.idle.Store(true) // it only keeps its session
			<-s.over
			return s.err
		}
		if err := step(ctx, s); err != nil && !errors.Is(err, errRefused) { // a refusal is an answer
			return err
		}
		c.steps.Add(1)
		c.think(ctx)
		if c.chance.IntN(60) == 0 && !c.plan.Stays {
			return errMoved
		}
	}
	return ctx.Err()
}

// shared is the name of a semaphore that the client shares with others of its kind.
func (c *Client) shared(kind string) string {
	return fmt.Sprintf("%s-%d", kind, c.chance.IntN(max(1, c.plan.Names)))
}

// wait draws how long an acquire waits in the queue, in milliseconds.
func (c *Client) wait() uint64 { return uint64(c.chance.IntN(3) * c.chance.IntN(700)) }

// text draws data.
func (c *Client) text() string { return strconv.FormatUint(c.chance.Uint64(), 10) }

// counter is a number in a semaphore that only its client changes. Acknowledged values must not get lost.
type counter struct {
	made         bool
	acknowledged uint64
	tried        uint64
}

// count increments the client's own counter, or compares the stored value with the acknowledged one.
func (c *Client) count(s *stream) error {
	r := model.Request{Kind: model.Describe, Name: fmt.Sprint("own-", c.number)}
	switch {
	case !c.own.made:
		r.Kind, r.Limit, r.Data = model.Create, 1, "0"
	case c.chance.IntN(2) == 0:
		c.own.tried++
		r.Kind, r.Data = model.Update, strconv.FormatUint(c.own.tried, 10)
	}
	grows := len(r.Data) > len(strconv.FormatUint(c.own.acknowledged, 10))
	answer, err := s.call(r)
	switch {
	case err != nil:
		return err
	case r.Kind == model.Create:
		c.own.made = answer.Status == model.Success || answer.Status == model.AlreadyExists
	case c.world.Bounded() && answer.Status == model.PreconditionFailed && grows:
	case answer.Status != model.Success:
		c.world.Violation("client %d: %s of its own semaphore: %v", c.number, r.Kind, answer.Status)
	case r.Kind == model.Update:
		c.own.acknowledged = c.own.tried
	default:
		value, err := strconv.ParseUint(answer.Description.Data, 10, 64)
		if err != nil || value < c.own.acknowledged {
			c.world.Violation("client %d: %d was acknowledged, and %q is stored", c.number, c.own.acknowledged,
				answer.Description.Data)
		}
	}
	return nil
}

// lock is an acquire of an ephemeral semaphore that no other session may share.
func (c *Client) lock(name string, wait uint64) model.Request {
	return model.Request{Kind: model.Acquire, Name: name, Count: math.MaxUint64, TimeoutMillis: wait, Ephemeral: true}
}

// mutex takes and returns a lock, and counts while it has it.
func (c *Client) mutex(ctx context.Context, s *stream) error {
	name := c.shared("lock")
	got, err := s.acquire(c.lock(name, c.wait()))
	if err != nil {
		return err
	}
	c.think(ctx)
	if err := c.count(s); err != nil {
		return err
	}
	if got && c.chance.IntN(8) > 0 || c.chance.IntN(8) == 0 { // otherwise it keeps it for a while
		return s.release(name)
	}
	return nil
}

// keeper takes a lock of its own again and again, and expects to have it. A session that only reads would lose its
// stream with a leader: the next one does not know whether requests after an unanswered describe were executed.
func (c *Client) keeper(_ context.Context, s *stream) error {
	name := fmt.Sprint("kept-", c.number)
	got, err := s.acquire(c.lock(name, 0))
	if err != nil {
		return err
	}
	answer, err := s.call(model.Request{Kind: model.Describe, Name: name, IncludeOwners: true})
	if err == nil && (!got || answer.Description == nil || len(answer.Description.Owners) != 1 ||
		answer.Description.Owners[0].Session != c.session) {
		c.world.Violation("client %d, session %d, has lost its lock: %v, %+v", c.number, c.session, got,
			answer.Description)
	}
	return err
}

// countingLimit is the number of tokens of a semaphore with several.
const countingLimit = 4

// counting takes tokens, fewer tokens, tries, and gives back.
func (c *Client) counting(ctx context.Context, s *stream) error {
	name := c.shared("count")
	if c.chance.IntN(20) == 0 || c.steps.Load() == 0 {
		for i := range max(1, c.plan.Names) {
			create := model.Request{Kind: model.Create, Name: fmt.Sprint("count-", i), Limit: countingLimit}
			if _, err := s.call(create); err != nil {
				return err
			}
		}
	}
	count := 1 + c.chance.Uint64N(cmp.Or(c.held[name], countingLimit))
	switch _, err := s.acquire(model.Request{Name: name, Count: count, TimeoutMillis: c.wait()}); {
	case errors.Is(err, errRefused): // it has fewer tokens than it knows, and may not take more
		return s.release(name)
	case err != nil:
		return err
	}
	c.think(ctx)
	if c.chance.IntN(2) == 0 {
		return s.release(name)
	}
	return nil
}

// mixed has several requests under way, of all kinds, on few names.
func (c *Client) mixed(_ context.Context, s *stream) error {
	var list []model.Request
	for range max(1, c.plan.Pipeline) {
		list = append(list, c.any())
	}
	return s.all(2*time.Second, list)
}

// any draws a request.
func (c *Client) any() model.Request {
	r := model.Request{Kind: []model.Kind{model.Acquire, model.Acquire, model.Acquire, model.Acquire, model.Release,
		model.Release, model.Release, model.Create, model.Create, model.Update, model.Update, model.Delete,
		model.Describe, model.Describe}[c.chance.IntN(14)], Name: c.shared("mixed")}
	ephemeral := c.chance.IntN(5) == 0
	switch r.Kind {
	case model.Acquire:
		r.Count, r.TimeoutMillis = 1+c.chance.Uint64N(countingLimit), c.wait()
		if ephemeral {
			return c.lock(r.Name+"-e", r.TimeoutMillis)
		}
	case model.Release:
		if ephemeral {
			r.Name += "-e"
		}
	case model.Create:
		r.Limit, r.Data = countingLimit, c.text()
	case model.Update:
		r.Data = c.text()
	case model.Delete:
		r.Force = c.chance.IntN(2) == 0
	case model.Describe:
		r.IncludeOwners, r.WatchData = c.chance.IntN(2) == 0, c.chance.IntN(3) == 0
		r.IncludeWaiters, r.WatchOwners = r.IncludeOwners, r.IncludeOwners && r.WatchData
	}
	return r
}

// watcher describes with a watch, and changes what it watches.
func (c *Client) watcher(ctx context.Context, s *stream) error {
	r := model.Request{Kind: model.Create, Name: c.shared("watched"), Limit: 1}
	if c.steps.Load() == 0 || c.chance.IntN(20) == 0 {
		if _, err := s.call(r); err != nil {
			return err
		}
	}
	owners := c.chance.IntN(2) == 0
	_, err := s.call(model.Request{Kind: model.Describe, Name: r.Name, WatchData: true, WatchOwners: owners,
		IncludeOwners: owners, IncludeWaiters: owners})
	if err != nil {
		return err
	}
	c.think(ctx)
	if c.chance.IntN(2) == 0 {
		_, err = s.call(model.Request{Kind: model.Update, Name: r.Name, Data: c.text()})
	}
	return err
}

// thief is a mutex whose session is attached elsewhere now and then while its stream is still open.
func (c *Client) thief(ctx context.Context, s *stream) error {
	if err := c.mutex(ctx, s); err != nil {
		return err
	}
	if c.chance.IntN(5) > 0 {
		return nil
	}
	if c.thefts++; c.thefts > 3 {
		c.thefts = 0
		return errMoved
	}
	return errors.Join(c.visit(ctx, c.chance.IntN(c.world.Servers())), errMoved)
}

// short has a session only for a moment.
func (c *Client) short(ctx context.Context, s *stream) error {
	if _, err := s.acquire(c.lock(c.shared("lock"), c.wait())); err != nil {
		return err
	}
	c.think(ctx)
	if c.chance.IntN(3) == 0 {
		c.steps.Add(1)
		c.lose()
		return errMoved // the session expires
	}
	if err := s.send(model.Request{Kind: model.Stop}); err != nil {
		return err
	}
	select {
	case <-s.over:
	case <-time.After(answerPatience):
		return fmt.Errorf("no end of the stream in %v", answerPatience)
	}
	c.steps.Add(1)
	c.lose()
	return s.err
}

// hoarded bounds the locks of a hoarder.
const hoarded = 2000

// hoarder takes many locks at once, and gives them back with its session.
func (c *Client) hoarder(_ context.Context, s *stream) error {
	var list []model.Request
	most := hoarded
	if c.steps.Load() > 0 {
		most /= 20
	}
	for i := range 1 + c.chance.IntN(most) {
		list = append(list, c.lock(fmt.Sprintf("hoard-%d-%d", c.number, i), 0))
	}
	if err := s.all(0, list); err != nil {
		return err
	}
	if c.chance.IntN(2) == 0 {
		c.steps.Add(1)
		c.lose()
		return errMoved
	}
	return nil
}

// large stores and reads large values.
func (c *Client) large(_ context.Context, s *stream) error {
	r := model.Request{Kind: model.Create, Name: c.shared("large"), Limit: 1}
	if _, err := s.call(r); err != nil {
		return err
	}
	most := 1 << 20
	if c.chance.IntN(10) > 0 {
		most = 1 << 13
	}
	data := make([]byte, 1+c.chance.IntN(most))
	for i := 0; i < len(data); i += 512 {
		data[i] = byte(c.chance.Uint32())
	}
	if _, err := s.call(model.Request{Kind: model.Update, Name: r.Name, Data: string(data)}); err != nil {
		return err
	}
	var list []model.Request
	for range c.plan.Pipeline {
		list = append(list, model.Request{Kind: model.Describe, Name: c.shared("large"), IncludeOwners: true,
			IncludeWaiters: true})
	}
	return s.all(0, list)
}

// Properties of the rate limiters: less than one client asks for.
const (
	UnitsPerSecond = 20
	MostUnits      = 20 // of one request
)

// limited takes units of a rate limiter.
func (c *Client) limited(ctx context.Context, conn *grpc.ClientConn) error {
	api := Ydb_RateLimiter_V1.NewRateLimiterServiceClient(conn)
	resource := &Ydb_RateLimiter.Resource{ResourcePath: "units", Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{
		HierarchicalDrr: &Ydb_RateLimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: UnitsPerSecond}}}
	err := operate(ctx, Ydb.StatusIds_ALREADY_EXISTS, func(ctx context.Context) (operated, error) {
		return api.CreateResource(ctx, &Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: c.path(),
			Resource: resource})
	})
	for err == nil && c.chance.IntN(60) > 0 {
		units := &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: 1 + c.chance.Uint64N(MostUnits)}
		params := &Ydb_Operations.OperationParams{OperationTimeout: durationpb.New(2 * time.Second)}
		err = operate(ctx, Ydb.StatusIds_TIMEOUT, func(ctx context.Context) (operated, error) {
			r, err := api.AcquireResource(ctx, &Ydb_RateLimiter.AcquireResourceRequest{CoordinationNodePath: c.path(),
				ResourcePath: "units", Units: units, OperationParams: params})
			if r.GetOperation().GetStatus() == Ydb.StatusIds_SUCCESS {
				c.world.Granted(c.plan.Node, units.Required)
			}
			return r, err
		})
		if err == nil {
			c.steps.Add(1)
			c.think(ctx)
		}
	}
	return err
}

// caller makes a node and drops it, again and again. Each call is executed once: a second create would find the node,
// and a second drop would not. Without an answer nobody knows, and the next node has another name.
func (c *Client) caller(ctx context.Context, conn *grpc.ClientConn) error {
	api := Ydb_Coordination_V1.NewCoordinationServiceClient(conn)
	for {
		c.nodes++
		path := fmt.Sprintf("/local/called-%d-%d", c.number, c.nodes)
		for _, call := range []func(ctx context.Context) (operated, error){
			func(ctx context.Context) (operated, error) {
				return api.CreateNode(ctx, &Ydb_Coordination.CreateNodeRequest{Path: path})
			},
			func(ctx context.Context) (operated, error) {
				return api.DropNode(ctx, &Ydb_Coordination.DropNodeRequest{Path: path})
			},
		} {
			var status Ydb.StatusIds_StatusCode
			err := operate(ctx, Ydb.StatusIds_SUCCESS, func(ctx context.Context) (operated, error) {
				r, err := call(ctx)
				status = r.GetOperation().GetStatus()
				return r, err
			})
			if err != nil && status != Ydb.StatusIds_STATUS_CODE_UNSPECIFIED && status != Ydb.StatusIds_UNAVAILABLE {
				c.world.Violation("client %d: %s: %v", c.number, path, err)
			}
			if err != nil {
				return err
			}
			c.steps.Add(1)
			c.think(ctx)
		}
	}
}

// operated is the answer to a unary call.
type operated interface {
	GetOperation() *Ydb_Operations.Operation
}

// operate makes a unary call that has to succeed, or to end with another status that is as good.
func operate(ctx context.Context, good Ydb.StatusIds_StatusCode,
	call func(context.Context) (operated, error)) error {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	r, err := call(ctx)
	if err != nil {
		return err
	}
	switch status := r.GetOperation().GetStatus(); status {
	case Ydb.StatusIds_SUCCESS, good:
		return nil
	case Ydb.StatusIds_PRECONDITION_FAILED:
		return errNoRoom
	default:
		return fmt.Errorf("call: %v %v", status, r.GetOperation().GetIssues())
	}
}
