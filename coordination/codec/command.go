package codec

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
)

// AppendCommand appends the encoding of c to dst and returns the extended slice; nothing is appended for a
// nil command. Equal commands have equal encodings. In the log a command may stand alone like this if Since
// is the first version; one of a later version is part of an entry (AppendToEntry). It panics on a type of
// command that it does not know: that is a bug, which the tests would have found.
func AppendCommand(dst []byte, c coordination.Command) []byte {
	if c == nil {
		return dst
	}
	w := wire{mode: measuring}
	field := w.command(c)
	dst = slices.Grow(dst, 1+protowire.SizeTag(field)+protowire.SizeBytes(w.size))
	return appendCommand(append(dst, byte(Since(c))), c, field, w.size)
}

// appendCommand appends a command as logpb.Command has it: its field, and size bytes of content.
func appendCommand(dst []byte, c coordination.Command, field protowire.Number, size int) []byte {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size))
	w := wire{mode: writing, data: dst}
	w.command(c)
	return w.data
}

// DecodeCommand reads what AppendCommand wrote; no data is the nil command. Byte slices of the command share
// memory with data, which must not be changed afterwards. It fails on a version or a command that this
// program does not know, naming it, and on everything that is not the one encoding of a command. A server
// must not go on after such an error: it would no longer have the state that the others have.
func DecodeCommand(data []byte) (coordination.Command, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if data[0] < versionFirst || data[0] > Version {
		return nil, fmt.Errorf("a command has format version %d, this program knows version %d", data[0],
			Version)
	}
	c, err := readCommand(data[1:], false)
	if err != nil {
		return nil, err
	}
	if since := Since(c); since != uint64(data[0]) {
		return nil, fmt.Errorf("a command %T has format version %d, and not %d, with which its form came", c,
			data[0], since)
	}
	return c, nil
}

// readCommand reads a command in the form of logpb.Command. With copies its byte slices share no memory with data.
func readCommand(data []byte, copies bool) (coordination.Command, error) {
	outer := reader(data, false)
	field, wireType := protowire.DecodeTag(outer.tag)
	c := newCommand(field)
	if c == nil || wireType != protowire.BytesType {
		if outer.err != nil {
			return nil, fmt.Errorf("a command is broken: %w", outer.err)
		}
		return nil, fmt.Errorf("command %d of type %d is unknown to this program", field, wireType)
	}
	w := reader(outer.takeBytes(), copies)
	outer.nextTag()
	if err := outer.finish(); err != nil {
		return nil, fmt.Errorf("a command %T is broken: %w", c, err)
	}
	w.command(c)
	if err := w.finish(); err != nil {
		return nil, fmt.Errorf("a command %T is broken: %w", c, err)
	}
	return c, nil
}

// dropNode is the field of a DropNode in logpb.Command.
const dropNode = 12

// newCommand returns an empty command of the given field of logpb.Command, nil if there is no such field.
func newCommand(field protowire.Number) coordination.Command {
	switch field {
	case 1:
		return new(coordination.Attach)
	case 2:
		return new(coordination.StopSession)
	case 3:
		return new(coordination.ExpireSession)
	case 4:
		return new(coordination.ExpireWaiter)
	case 5:
		return new(coordination.CreateSemaphore)
	case 6:
		return new(coordination.UpdateSemaphore)
	case 7:
		return new(coordination.DeleteSemaphore)
	case 8:
		return new(coordination.AcquireSemaphore)
	case 9:
		return new(coordination.ReleaseSemaphore)
	case 10:
		return new(coordination.CreateNode)
	case 11:
		return new(coordination.AlterNode)
	case dropNode:
		return new(coordination.DropNode)
	case 13:
		return new(coordination.MakeDirectory)
	case 14:
		return new(coordination.RemoveDirectory)
	case 15:
		return new(coordination.ModifyPermissions)
	case 16:
		return new(coordination.AddUser)
	case 17:
		return new(coordination.SetPassword)
	case 18:
		return new(coordination.RemoveUser)
	case 19:
		return new(coordination.RotateSigningKey)
	case 20:
		return new(coordination.BeginLineage)
	case 21:
		return new(coordination.SetLimits)
	case 22:
		return new(coordination.Mark)
	case 24:
		return new(coordination.EndSession)
	case 25:
		return new(coordination.RemoveSemaphore)
	case 26:
		return new(coordination.CreateResource)
	case 27:
		return new(coordination.AlterResource)
	case 28:
		return new(coordination.DropResource)
	case 29:
		return new(coordination.SetQuota)
	case 30:
		return new(coordination.BeginAbsence)
	case 31:
		return new(coordination.EndAbsence)
	case 32:
		return new(coordination.Quiet)
	case 33:
		return new(coordination.Age)
	case 35:
		return new(coordination.UpdateData)
	case 36:
		return new(coordination.SetHistory)
	}
	return nil
}

// command passes the fields of a command and returns its field in logpb.Command.
func (w *wire) command(c coordination.Command) protowire.Number {
	field := w.sessionCommand(c)
	if field == 0 {
		field = w.nodeCommand(c)
	}
	if field == 0 {
		field = w.clusterCommand(c)
	}
	if field == 0 {
		panic(fmt.Sprintf("codec: %T has no encoding", c))
	}
	return field
}

// sessionCommand is command for the commands of sessions and semaphores; it returns 0 for all others.
func (w *wire) sessionCommand(c coordination.Command) protowire.Number {
	switch c := c.(type) {
	case *coordination.Attach:
		w.attach(c)
		return 1
	case *coordination.StopSession:
		w.origin(&c.Origin)
		w.answered(&c.Origin)
		w.client(16, &c.Client)
		return 2
	case *coordination.ExpireSession:
		w.expireSession(c)
		return 3
	case *coordination.ExpireWaiter:
		w.expireWaiter(c)
		return 4
	case *coordination.CreateSemaphore:
		w.createSemaphore(c)
		return 5
	case *coordination.UpdateSemaphore:
		w.updateSemaphore(c)
		return 6
	case *coordination.DeleteSemaphore:
		w.deleteSemaphore(c)
		return 7
	case *coordination.AcquireSemaphore:
		w.acquireSemaphore(c)
		return 8
	case *coordination.ReleaseSemaphore:
		w.origin(&c.Origin)
		w.text(7, &c.Name)
		w.answered(&c.Origin)
		return 9
	case *coordination.EndSession:
		w.endSession(c)
		return 24
	case *coordination.RemoveSemaphore:
		w.ofNode(&c.CallID, &c.Caller, &c.Node)
		number(w, 6, &c.Semaphore)
		w.flag(7, &c.Force)
		w.flag(8, &c.Seen)
		number(w, 9, &c.Owner)
		return 25
	case *coordination.UpdateData:
		w.ofNode(&c.CallID, &c.Caller, &c.Node)
		w.text(6, &c.Name)
		w.bytes(7, &c.Data)
		number(w, 8, &c.Expected)
		return 35
	}
	return 0
}

func (w *wire) endSession(c *coordination.EndSession) {
	w.ofNode(&c.CallID, &c.Caller, &c.Node)
	number(w, 6, &c.Session)
	w.text(7, &c.Reason)
	w.client(8, &c.Client)
	number(w, 13, &c.Semaphore)
	number(w, 14, &c.Order)
}

// ofNode is the fields 1 to 5 of a call about something in a node.
func (w *wire) ofNode(call *coordination.CallID, by *coordination.Caller, node *coordination.NodeID) {
	number(w, 1, &call.Nonce)
	w.caller(3, by)
	number(w, 5, node)
}

// nodeCommand is command for the commands of nodes, directories and rate limiters; it returns 0 for all others.
func (w *wire) nodeCommand(c coordination.Command) protowire.Number {
	switch c := c.(type) {
	case *coordination.CreateNode:
		w.createNode(c)
		return 10
	case *coordination.AlterNode:
		w.alterNode(c)
		return 11
	case *coordination.DropNode:
		w.call(&c.CallID, &c.Path)
		w.caller(4, &c.Caller)
		return dropNode
	case *coordination.MakeDirectory:
		w.makeDirectory(c)
		return 13
	case *coordination.RemoveDirectory:
		w.call(&c.CallID, &c.Path)
		w.caller(4, &c.Caller)
		return 14
	case *coordination.ModifyPermissions:
		w.modifyPermissions(c)
		return 15
	case *coordination.SetQuota:
		w.call(&c.CallID, &c.Path)
		w.caller(4, &c.Caller)
		w.quota(6, &c.Quota)
		return 29
	case *coordination.SetHistory:
		w.call(&c.CallID, &c.Path)
		w.caller(4, &c.Caller)
		number(w, 6, &c.History)
		return 36
	case *coordination.CreateResource:
		w.ofResource(&c.CallID, &c.Path, &c.Caller, &c.Resource)
		w.properties(7, &c.ResourceProperties)
		return 26
	case *coordination.AlterResource:
		w.ofResource(&c.CallID, &c.Path, &c.Caller, &c.Resource)
		w.properties(7, &c.ResourceProperties)
		return 27
	case *coordination.DropResource:
		w.ofResource(&c.CallID, &c.Path, &c.Caller, &c.Resource)
		return 28
	}
	return 0
}

// clusterCommand is command for the commands of users, limits, time and the log itself; it returns 0 for all others.
func (w *wire) clusterCommand(c coordination.Command) protowire.Number {
	switch c := c.(type) {
	case *coordination.AddUser:
		w.addUser(c)
		return 16
	case *coordination.SetPassword:
		w.setPassword(c)
		return 17
	case *coordination.RemoveUser:
		number(w, 1, &c.Nonce)
		w.caller(3, &c.Caller)
		w.text(5, &c.Name)
		return 18
	case *coordination.RotateSigningKey:
		w.rotateSigningKey(c)
		return 19
	case *coordination.BeginLineage:
		number(w, 1, &c.Lineage)
		return 20
	case *coordination.SetLimits:
		number(w, 1, &c.Nonce)
		w.caller(3, &c.Caller)
		w.limits(5, &c.Limits)
		w.flag(6, &c.OnlyFirst)
		return 21
	case *coordination.Mark:
		return 22
	case *coordination.BeginAbsence:
		w.absence(&c.Node, &c.Session, &c.AttachEpoch)
		number(w, 5, &c.Since)
		number(w, 6, &c.TotalMillis)
		return 30
	case *coordination.EndAbsence:
		w.absence(&c.Node, &c.Session, &c.AttachEpoch)
		return 31
	case *coordination.Quiet:
		w.flag(1, &c.Over)
		return 32
	case *coordination.Age:
		return 33
	}
	return 0
}

// absence is the fields 1 to 4 of a command about one.
func (w *wire) absence(node *coordination.NodeID, session *coordination.SessionID, attached *coordination.Epoch) {
	number(w, 1, node)
	number(w, 2, session)
	w.epoch(3, attached)
}

// ofResource is the fields 1 to 6 of a command about a resource.
func (w *wire) ofResource(call *coordination.CallID, path *scheme.Path, by *coordination.Caller, resource *string) {
	w.call(call, path)
	w.caller(4, by)
	w.text(6, resource)
}

// properties is six fields, the first of which is given.
func (w *wire) properties(first protowire.Number, p *coordination.ResourceProperties) {
	number(w, first, &p.MaxUnitsPerSecond)
	number(w, first+1, &p.MaxBurstSizeCoefficient)
	number(w, first+2, &p.PrefetchCoefficient)
	number(w, first+3, &p.PrefetchWatermark)
	w.bytes(first+4, &p.MoreSettings)
	w.bytes(first+5, &p.More)
}

// epoch is two fields, the first of which is given.
func (w *wire) epoch(first protowire.Number, e *coordination.Epoch) {
	number(w, first, &e.Term)
	number(w, first+1, &e.Counter)
}

// config is five fields, the first of which is given.
func (w *wire) config(first protowire.Number, c *coordination.NodeConfig) {
	number(w, first, &c.SelfCheckPeriodMillis)
	number(w, first+1, &c.SessionGracePeriodMillis)
	number(w, first+2, &c.ReadConsistencyMode)
	number(w, first+3, &c.AttachConsistencyMode)
	number(w, first+4, &c.RateLimiterCountersMode)
}

// origin is the fields 1 to 6 of what a session asks for; answered is the last one.
func (w *wire) origin(o *coordination.Origin) {
	number(w, 1, &o.Node)
	number(w, 2, &o.Session)
	w.epoch(3, &o.Address.Epoch)
	number(w, 5, &o.Address.Sequence)
	number(w, 6, &o.Acknowledged)
}

func (w *wire) answered(o *coordination.Origin) { number(w, 15, &o.Answered) }

// call is the fields 1 and 3 of a command about the path tree.
func (w *wire) call(call *coordination.CallID, path *scheme.Path) {
	number(w, 1, &call.Nonce)
	w.texts(3, (*[]string)(path))
}

func (w *wire) attach(c *coordination.Attach) {
	number(w, 1, &c.Node)
	number(w, 2, &c.Session)
	w.epoch(3, &c.Epoch)
	number(w, 5, &c.TimeoutMillis)
	w.text(6, &c.Description)
	w.text(7, &c.ProtectionKey)
	number(w, 8, &c.Nonce)
	number(w, 9, &c.Place)
	w.identity(10, &c.Identity)
	w.flag(14, &c.MayWrite)
}

// identity is four fields, the first of which is given.
func (w *wire) identity(first protowire.Number, i *coordination.Identity) {
	number(w, first, &i.Kind)
	number(w, first+1, &i.User.Index)
	number(w, first+2, &i.User.Place)
	w.text(first+3, &i.Subject)
}

func (w *wire) expireSession(c *coordination.ExpireSession) {
	number(w, 1, &c.Node)
	number(w, 2, &c.Session)
	w.epoch(3, &c.AttachEpoch)
	number(w, 5, &c.Term)
	w.client(6, &c.Client)
}

// client is five fields, the first of which is given.
func (w *wire) client(first protowire.Number, c *coordination.Client) {
	w.text(first, &c.Peer)
	w.text(first+1, &c.Library)
	w.text(first+2, &c.User)
	number(w, first+3, &c.SilentMillis)
	number(w, first+4, &c.Lost)
}

func (w *wire) expireWaiter(c *coordination.ExpireWaiter) {
	number(w, 1, &c.Node)
	number(w, 2, &c.Session)
	number(w, 3, &c.Semaphore)
	number(w, 4, &c.Order)
	number(w, 5, &c.WaitEpoch.Index)
	number(w, 6, &c.Term)
	number(w, 7, &c.WaitEpoch.Place)
}

func (w *wire) createSemaphore(c *coordination.CreateSemaphore) {
	w.origin(&c.Origin)
	w.text(7, &c.Name)
	number(w, 8, &c.Limit)
	w.bytes(9, &c.Data)
	w.answered(&c.Origin)
}

func (w *wire) updateSemaphore(c *coordination.UpdateSemaphore) {
	w.origin(&c.Origin)
	w.text(7, &c.Name)
	w.bytes(8, &c.Data)
	w.answered(&c.Origin)
}

func (w *wire) deleteSemaphore(c *coordination.DeleteSemaphore) {
	w.origin(&c.Origin)
	w.text(7, &c.Name)
	w.flag(8, &c.Force)
	w.answered(&c.Origin)
}

func (w *wire) acquireSemaphore(c *coordination.AcquireSemaphore) {
	w.origin(&c.Origin)
	w.text(7, &c.Name)
	number(w, 8, &c.Count)
	number(w, 9, &c.TimeoutMillis)
	w.bytes(10, &c.Data)
	w.flag(11, &c.Ephemeral)
	w.answered(&c.Origin)
}

func (w *wire) createNode(c *coordination.CreateNode) {
	w.call(&c.CallID, &c.Path)
	w.config(4, &c.Config)
	w.flag(9, &c.SetsPath)
	w.text(10, &c.Owner)
	number(w, 11, &c.StampMillis)
	w.caller(12, &c.Caller)
}

func (w *wire) alterNode(c *coordination.AlterNode) {
	w.call(&c.CallID, &c.Path)
	w.config(4, &c.Config)
	w.flag(9, &c.SetsPath)
	w.caller(10, &c.Caller)
}

// limits is a message that is left out if it is empty, and broken if it is there and empty.
func (w *wire) limits(field protowire.Number, l *coordination.StateLimits) {
	var list []coordination.StateLimits
	if w.mode != reading && *l != (coordination.StateLimits{}) {
		list = append(list, *l)
	}
	messages(w, field, &list, func(w *wire, l *coordination.StateLimits) {
		number(w, 1, &l.State)
		number(w, 2, &l.NodeBytes)
		number(w, 3, &l.Sessions)
		number(w, 4, &l.Semaphores)
		number(w, 5, &l.Reserve)
		number(w, 6, &l.Links)
	})
	if w.mode != reading || len(list) == 0 {
		return
	}
	if *l = list[0]; len(list) > 1 || *l == (coordination.StateLimits{}) {
		w.fail("field %d is empty or twice there", field)
	}
}

func (w *wire) quota(first protowire.Number, q *scheme.Quota) {
	number(w, first, &q.Bytes)
	number(w, first+1, &q.Entries)
}

func (w *wire) makeDirectory(c *coordination.MakeDirectory) {
	w.call(&c.CallID, &c.Path)
	w.text(4, &c.Owner)
	number(w, 5, &c.StampMillis)
	w.caller(6, &c.Caller)
}

func (w *wire) modifyPermissions(c *coordination.ModifyPermissions) {
	w.call(&c.CallID, &c.Path)
	w.flag(4, &c.Change.Clear)
	w.optionalFlag(5, &c.Change.Interrupt)
	messages(w, 6, &c.Change.Actions, func(w *wire, a *scheme.Action) {
		number(w, 1, &a.Kind)
		w.text(2, &a.Subject)
		w.texts(3, &a.Names)
	})
	w.caller(7, &c.Caller)
}
