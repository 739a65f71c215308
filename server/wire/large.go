package wire

import (
	"sync"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/coordd/coordd/coordination"
)

// sharedBytes is the length from which on a large answer points to data instead of copying it.
const sharedBytes = 1 << 10

// The fields that a large answer is made of by hand.
var (
	resultField      = field(new(Ydb_Coordination.SessionResponse), "describe_semaphore_result")
	descriptionField = field(new(Ydb_Coordination.SessionResponse_DescribeSemaphoreResult),
		"semaphore_description")
	dataField     = field(new(Ydb_Coordination.SemaphoreDescription), "data")
	ownersField   = field(new(Ydb_Coordination.SemaphoreDescription), "owners")
	waitersField  = field(new(Ydb_Coordination.SemaphoreDescription), "waiters")
	linkDataField = field(new(Ydb_Coordination.SemaphoreSession), "data")
	// linkFields are the numbers of a link, in the order of encoded.link.
	linkFields = [...]protowire.Number{
		field(new(Ydb_Coordination.SemaphoreSession), "session_id"),
		field(new(Ydb_Coordination.SemaphoreSession), "timeout_millis"),
		field(new(Ydb_Coordination.SemaphoreSession), "count"),
		field(new(Ydb_Coordination.SemaphoreSession), "order_id"),
	}
)

func field(m proto.Message, name protoreflect.Name) protowire.Number {
	return m.ProtoReflect().Descriptor().Fields().ByName(name).Number()
}

// Own bounds the memory of its own that the message of ToClientShared needs.
func Own(d *coordination.SemaphoreDescription) int {
	const each = 64 // what a link, or the whole, has besides data
	own := each + len(d.Name)
	add := func(b []byte) {
		if own += each; len(b) < sharedBytes {
			own += len(b)
		}
	}
	add(d.Data)
	for _, list := range []*coordination.Links{&d.Owners, &d.Waiters} {
		for l := range list.All() {
			add(l.Data)
		}
	}
	return own
}

// Large is a message with a description, encoded without copies of the data that is described: however many
// clients ask for it and do not read it, there is one of it.
type Large struct {
	pieces [][]byte
	copied int // bytes of the pieces that are the message's own
	gone   func()
	room   []byte // of the last piece, if it is all that has any of it, for another message
}

// Pieces are the encoded message when put together. They must not be changed.
func (l *Large) Pieces() [][]byte { return l.pieces }

// OnGone has f called when the message has left, or will not.
func (l *Large) OnGone(f func()) { l.gone = f }

// Gone is to be called once, when the pieces are not needed any more.
func (l *Large) Gone() {
	if l.room != nil {
		giveRoom(l.room)
		l.room = nil
	}
	if l.gone != nil {
		l.gone()
	}
}

// ToClientShared is ToClient for a reply with a description, which shares data with the reply.
func ToClientShared(r *coordination.Reply) (*Large, error) {
	d := r.Description
	about := encoded{open: takeRoom(Own(d))} // grown as it is written, it would be four times as much
	room := about.open
	err := about.message(&Ydb_Coordination.SemaphoreDescription{Name: d.Name, Count: d.Count, Limit: d.Limit,
		Ephemeral: d.Ephemeral})
	about.data(dataField, d.Data)
	for _, list := range []struct {
		field protowire.Number
		links *coordination.Links
	}{{ownersField, &d.Owners}, {waitersField, &d.Waiters}} {
		for l := range list.links.All() {
			about.link(list.field, &l)
		}
	}
	without := *r
	without.Description = nil
	inner := result(&without).GetDescribeSemaphoreResult()
	var head encoded
	if err == nil {
		err = head.message(inner)
	}
	if err != nil {
		return nil, err
	}
	head.begin(descriptionField, about.length)
	var whole encoded
	whole.begin(resultField, head.length+about.length)
	whole.own(head.open)
	pieces := append([][]byte{whole.open}, about.finish()...)
	large := &Large{pieces: pieces, copied: len(whole.open) + about.copied}
	if len(pieces) == 2 {
		large.room = room
	}
	return large, nil
}

// rooms are for messages to be encoded in, so that a client that lists again and again makes no garbage.
var rooms sync.Pool // of *[]byte

// roomMin and roomMax bound the size of a room that is kept: small rooms of short descriptions would be in the way of
// lists.
const (
	roomMin = 16 << 10
	roomMax = 1 << 20
)

// takeRoom returns an empty slice with room for n bytes, and not for many more: what is lent for a message that
// its client does not read is n.
func takeRoom(n int) []byte {
	if n < roomMin {
		return make([]byte, 0, n)
	}
	if room, is := rooms.Get().(*[]byte); is && cap(*room) >= n && cap(*room)/2 <= n {
		return (*room)[:0]
	}
	return make([]byte, 0, n)
}

// giveRoom has another message use what takeRoom returned.
func giveRoom(room []byte) {
	if cap(room) >= roomMin && cap(room) <= roomMax {
		rooms.Put(&room)
	}
}

// encoded is a message as it grows.
type encoded struct {
	pieces [][]byte
	open   []byte // the last piece, which is the message's own
	length int
	copied int // bytes of pieces
}

// own adds bytes as they are.
func (e *encoded) own(b []byte) {
	e.open = append(e.open, b...)
	e.length += len(b)
}

// begin adds what precedes a field of so many bytes.
func (e *encoded) begin(number protowire.Number, length int) {
	before := len(e.open)
	e.open = protowire.AppendVarint(protowire.AppendTag(e.open, number, protowire.BytesType), uint64(length))
	e.length += len(e.open) - before
}

// message adds the fields of a message.
func (e *encoded) message(m proto.Message) error {
	before := len(e.open)
	open, err := proto.MarshalOptions{}.MarshalAppend(e.open, m)
	e.open = open
	e.length += len(open) - before
	return err
}

// data adds a field with data, which is shared if it is long.
func (e *encoded) data(number protowire.Number, b []byte) {
	if len(b) == 0 {
		return
	}
	e.begin(number, len(b))
	if len(b) < sharedBytes {
		e.own(b)
		return
	}
	e.close()
	e.pieces = append(e.pieces, b)
	e.length += len(b)
}

// close ends the open piece. The next one uses what room is left behind it.
func (e *encoded) close() {
	n := len(e.open)
	e.copied += n
	e.pieces = append(e.pieces, e.open[:n:n])
	e.open = e.open[n:]
}

// link adds an owner or a waiter. There may be very many, so it is written by hand.
func (e *encoded) link(number protowire.Number, l *coordination.LinkDescription) {
	numbers := [...]uint64{uint64(l.Session), l.TimeoutMillis, l.Count, uint64(l.Order)}
	length := 0
	for i, v := range numbers {
		if v != 0 {
			length += protowire.SizeTag(linkFields[i]) + protowire.SizeVarint(v)
		}
	}
	if n := len(l.Data); n > 0 {
		length += protowire.SizeTag(linkDataField) + protowire.SizeBytes(n)
	}
	e.begin(number, length)
	before := len(e.open)
	for i, v := range numbers {
		if v != 0 {
			e.open = protowire.AppendVarint(protowire.AppendTag(e.open, linkFields[i], protowire.VarintType),
				v)
		}
	}
	e.length += len(e.open) - before
	e.data(linkDataField, l.Data)
}

func (e *encoded) finish() [][]byte {
	e.close()
	return e.pieces
}
