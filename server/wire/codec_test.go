package wire

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
)

// The frequent messages of clients, and the replies to them.
var (
	anAcquire = &clientMessage{Request: &Ydb_Coordination.SessionRequest_AcquireSemaphore_{
		AcquireSemaphore: &Ydb_Coordination.SessionRequest_AcquireSemaphore{
			ReqId: 300, Name: "own-17", TimeoutMillis: math.MaxUint64, Count: 1, Data: []byte("data"),
			Ephemeral: true}}}
	aRelease = &clientMessage{Request: &Ydb_Coordination.SessionRequest_ReleaseSemaphore_{
		ReleaseSemaphore: &Ydb_Coordination.SessionRequest_ReleaseSemaphore{
			ReqId: 301, Name: "own-17"}}}
	aPing = &clientMessage{Request: &Ydb_Coordination.SessionRequest_Ping{
		Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: 1 << 60}}}
	aPong = &clientMessage{Request: &Ydb_Coordination.SessionRequest_Pong{
		Pong: &Ydb_Coordination.SessionRequest_PingPong{Opaque: 7}}}

	usualReplies = []coordination.Reply{
		{Kind: coordination.ReplyPing, Opaque: math.MaxUint64},
		{Kind: coordination.ReplyPong, Opaque: 7},
		{Kind: coordination.ReplyPending, ReqID: math.MaxUint64},
		{Kind: coordination.ReplyChanged, ReqID: 300, DataChanged: true},
		{Kind: coordination.ReplyResult, Request: coordination.RequestAcquire, ReqID: math.MaxUint64,
			Done: true},
		{Kind: coordination.ReplyResult, Request: coordination.RequestRelease, ReqID: 301,
			Done: true},
	}
)

func encodedMessage(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// in wraps a message in the arm of SessionRequest that has the number.
func in(arm protowire.Number, inner ...byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, arm, protowire.BytesType), inner)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// oddMessages has messages that no SDK writes, and malformed ones.
func oddMessages(t testing.TB) map[string][]byte {
	acquire, release, ping := encodedMessage(t, anAcquire), encodedMessage(t, aRelease),
		encodedMessage(t, aPing)
	name := func(text string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), text)
	}
	huge := bytes.Repeat([]byte{0xff}, 9)
	return map[string][]byte{
		"nothing":                       {},
		"the same arm twice":            join(acquire, in(7, 0x20, 9)),
		"another arm behind it":         join(acquire, release),
		"and back again":                join(acquire, release, acquire),
		"an unknown field behind it":    join(acquire, []byte{0xf8, 0x3f, 1}),
		"an unknown field before it":    join([]byte{0xf8, 0x3f, 1}, acquire),
		"an unknown field in it":        in(7, join(name("n"), []byte{0x78, 1})...),
		"an unknown group in it":        in(8, 0x7b, 0x7c),
		"an unknown group that is open": in(8, 0x7b),
		"the end of a group":            in(8, 0x7c),
		"fields twice": in(7,
			join([]byte{8, 1, 8, 2}, name("a"), name("b"), []byte{0x2a, 1, 'x', 0x2a, 0})...),
		"no data":                              in(7, 0x2a, 0),
		"an empty arm":                         in(7),
		"an empty ping":                        in(1),
		"a field of another type":              in(7, 0x0a, 1, 'x'),
		"a name that is a number":              in(8, 0x10, 7),
		"an arm that is a number":              {0x38, 7},
		"fixed numbers":                        in(7, 0x0d, 1, 2, 3, 4, 0x11, 1, 2, 3, 4, 5, 6, 7, 8),
		"a name that is not UTF-8":             in(8, name("\xff")...),
		"data that is not UTF-8":               in(7, 0x2a, 1, 0xff),
		"a name that is not UTF-8, twice":      in(8, join(name("\xff"), name("a"))...),
		"a truth that is large":                in(7, join([]byte{0x30}, huge, []byte{1})...),
		"a number of 65 bits":                  in(7, join([]byte{8}, huge, []byte{2})...),
		"a number of 11 bytes":                 in(7, join([]byte{8}, huge, []byte{0xff, 1})...),
		"a number that is written long":        in(7, 8, 0x81, 0x80, 0),
		"a tag that is written long":           in(7, 0x88, 0, 5),
		"an arm that is written long":          join([]byte{0xba, 0}, acquire[1:]),
		"a length that is written long":        join(ping[:1], []byte{ping[1] | 0x80, 0}, ping[2:]),
		"a length beyond the message":          join(acquire[:1], []byte{acquire[1] + 1}, acquire[2:]),
		"a length beyond everything":           join(acquire[:1], huge, []byte{1}, acquire[2:]),
		"a name beyond the arm":                in(8, 0x12, 3, 'a'),
		"field 0":                              in(7, 0, 1),
		"field 0 outside":                      {0, 1},
		"a field of no type":                   in(7, 0x0f),
		"a field of no type outside":           {0x3f},
		"an arm that the server does not know": in(5),
	}
}

// sameAsGenerated compares what is read with what the generated code makes of it.
func sameAsGenerated(t *testing.T, b []byte) {
	t.Helper()
	// of before
	m := ClientMessage{Kind: coordination.ClientStop, ReqID: 1, Start: new(coordination.AttachRequest)}
	err := m.Decode(bytes.Clone(b))
	var generated clientMessage
	if want := proto.Unmarshal(b, &generated); want != nil {
		if err == nil || err.Error() != want.Error() {
			t.Fatalf("%x: %v, want the error %v", b, err, want)
		}
		return
	}
	if err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	if want := ClientMessage(FromClient(&generated)); !reflect.DeepEqual(m, want) {
		t.Fatalf("%x: %+v with %+v, want %+v with %+v", b, m, m.Request, want, want.Request)
	}
}

// TestReadAsGenerated reads messages that are usual, odd and wrong, and all of the usual ones that end early
// or have a byte changed.
func TestReadAsGenerated(t *testing.T) {
	for name, b := range oddMessages(t) {
		t.Run(name, func(t *testing.T) { sameAsGenerated(t, b) })
	}
	for _, m := range []*clientMessage{anAcquire, aRelease, aPing, aPong} {
		b := encodedMessage(t, m)
		if read := new(ClientMessage); !read.decode(b) {
			t.Errorf("%v is left to the generated code", m)
		}
		for i := range b {
			sameAsGenerated(t, b[:i])
			for v := range 256 {
				changed := bytes.Clone(b)
				changed[i] = byte(v)
				sameAsGenerated(t, changed)
			}
		}
		sameAsGenerated(t, b)
	}
}

// TestReadKeepsNothing changes the bytes behind the message's back, as gRPC's next message does.
func TestReadKeepsNothing(t *testing.T) {
	b := encodedMessage(t, anAcquire)
	var m ClientMessage
	if err := m.Decode(b); err != nil {
		t.Fatal(err)
	}
	clear(b)
	if m.Request.Name != "own-17" || string(m.Request.Data) != "data" {
		t.Errorf("%+v", m.Request)
	}
}

func FuzzRead(f *testing.F) {
	for _, b := range oddMessages(f) {
		f.Add(b)
	}
	for _, m := range []*clientMessage{anAcquire, aRelease, aPing, aPong} {
		f.Add(encodedMessage(f, m))
	}
	f.Fuzz(sameAsGenerated)
}

// writtenAsGenerated compares what is written with what the generated code writes.
func writtenAsGenerated(t *testing.T, r *coordination.Reply) (byHand bool) {
	t.Helper()
	want := encodedMessage(t, ToClient(r))
	got, other := (*Reply)(r).Encode()
	if byHand = other == nil; !byHand {
		got = encodedMessage(t, other.(proto.Message))
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%+v: %x, want %x", r, got, want)
	}
	return byHand
}

func TestWrittenAsGenerated(t *testing.T) {
	for _, r := range usualReplies {
		if !writtenAsGenerated(t, &r) {
			t.Errorf("%+v is left to the generated code", r)
		}
	}
	numbers := []uint64{0, 1, 127, 128, 1 << 35, math.MaxUint64}
	for kind := coordination.ReplyStarted; kind <= coordination.ReplyChanged; kind++ {
		for request := range coordination.RequestDescribe + 1 {
			for _, n := range numbers {
				for truths := range 8 {
					r := coordination.Reply{Kind: kind, Request: request, ReqID: n, Opaque: n + 1,
						Session: coordination.SessionID(n), Done: truths&1 != 0, DataChanged: truths&2 != 0,
						OwnersChanged: truths&4 != 0}
					writtenAsGenerated(t, &r)
					r.Refusal = coordination.LinkFailure
					writtenAsGenerated(t, &r)
				}
			}
		}
	}
}

// FuzzWrite has any reply decoded by the generated code, which has to find what it would have written itself.
func FuzzWrite(f *testing.F) {
	for i, r := range usualReplies {
		f.Add(uint8(r.Kind), uint8(r.Request), r.ReqID, uint8(i), []byte(nil), uint16(0))
	}
	for _, data := range [][]byte{nil, []byte("data"), make([]byte, sharedBytes)} {
		f.Add(uint8(coordination.ReplyResult), uint8(coordination.RequestDescribe), uint64(300), uint8(16), data,
			uint16(20))
	}
	f.Fuzz(func(t *testing.T, kind, request uint8, number uint64, flags uint8, data []byte, links uint16) {
		has := func(bit uint8) bool { return flags&(1<<bit) != 0 }
		r := coordination.Reply{Kind: coordination.ReplyKind(kind) % (coordination.ReplyChanged + 1),
			Request: coordination.RequestKind(request) % (coordination.RequestDescribe + 1), ReqID: number,
			Opaque: number, Session: coordination.SessionID(number), Done: has(0), DataChanged: has(1),
			OwnersChanged: has(2)}
		if has(3) {
			r.Refusal = coordination.LinkFailure
		}
		if r.Kind == coordination.ReplyResult && r.Request == coordination.RequestDescribe && has(4) {
			list := make([]coordination.LinkDescription, links%1000)
			for i := range list {
				list[i] = coordination.LinkDescription{Order: coordination.OrderID(number >> (i % 64)),
					Session: coordination.SessionID(i), TimeoutMillis: number, Count: uint64(i) * number,
					Data: data[:min(i, len(data))]}
			}
			r.Description, r.WatchAdded = &coordination.SemaphoreDescription{Name: "name", Data: data, Count: number,
				Limit: number, Ephemeral: has(5), Owners: coordination.LinksOf(list[:len(list)/2]),
				Waiters: coordination.LinksOf(list[len(list)/2:])}, has(6)
		}
		encoded, other := (*Reply)(&r).Encode()
		if other != nil {
			encoded = encodedMessage(t, other.(proto.Message))
		}
		got := new(serverMessage)
		if err := proto.Unmarshal(encoded, got); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if want := ToClient(&r); !proto.Equal(got, want) {
			t.Fatalf("%+v: got %v, want %v", r, got, want)
		}
	})
}

// TestAllocations: what is read has the request and its texts, and what is written its bytes.
func TestAllocations(t *testing.T) {
	for want, m := range map[int]*clientMessage{0: aPing, 2: aRelease, 3: anAcquire} {
		b, read := encodedMessage(t, m), new(ClientMessage)
		if got := testing.AllocsPerRun(100, func() { _ = read.Decode(b) }); int(got) != want {
			t.Errorf("%v: %v allocations, want %d", m, got, want)
		}
	}
	for _, r := range usualReplies {
		if got := testing.AllocsPerRun(100, func() { _, _ = (*Reply)(&r).Encode() }); got > 1 {
			t.Errorf("%+v: %v allocations", r, got)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for name, m := range map[string]*clientMessage{"acquire": anAcquire, "release": aRelease} {
		encoded := encodedMessage(b, m)
		b.Run(name+"/byhand", func(b *testing.B) {
			b.ReportAllocs()
			read := new(ClientMessage)
			for b.Loop() {
				if err := read.Decode(encoded); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/generated", func(b *testing.B) {
			b.ReportAllocs()
			read := new(ClientMessage)
			for b.Loop() {
				generated := new(clientMessage)
				if err := proto.Unmarshal(encoded, generated); err != nil {
					b.Fatal(err)
				}
				*read = ClientMessage(FromClient(generated))
			}
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	r := &usualReplies[4]
	b.Run("acquired/byhand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, other := (*Reply)(r).Encode(); other != nil {
				b.Fatal(other)
			}
		}
	})
	b.Run("acquired/generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := ToClient(r)
			if _, err := (proto.MarshalOptions{UseCachedSize: proto.Size(m) > 0}).Marshal(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
