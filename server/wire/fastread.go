package wire

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
)

// ClientMessage is a client's message that comes straight from the wire: what clients send all the time does
// not become a generated message first. Whatever is not as every SDK writes it, or is wrong, is left to the
// generated code, so that there is one opinion of it.
type ClientMessage coordination.ClientMessage

// The tags of what is read by hand, and of its fields. They have one byte each; a tag that is written longer
// is left to the generated code.
const (
	readPing    = 1<<3 | byte(protowire.BytesType)
	readPong    = 2<<3 | byte(protowire.BytesType)
	readAcquire = 7<<3 | byte(protowire.BytesType)
	readRelease = 8<<3 | byte(protowire.BytesType)

	readOpaque = 1<<3 | byte(protowire.VarintType)

	readReqID     = 1<<3 | byte(protowire.VarintType)
	readName      = 2<<3 | byte(protowire.BytesType)
	readTimeout   = 3<<3 | byte(protowire.VarintType)
	readCount     = 4<<3 | byte(protowire.VarintType)
	readData      = 5<<3 | byte(protowire.BytesType)
	readEphemeral = 6<<3 | byte(protowire.VarintType)
)

// Decode makes m what b says, and keeps nothing of b.
func (m *ClientMessage) Decode(b []byte) error {
	if m.decode(b) {
		return nil
	}
	var generated clientMessage
	if err := proto.Unmarshal(b, &generated); err != nil {
		return err
	}
	*m = ClientMessage(FromClient(&generated))
	return nil
}

// decode reports whether b is one of the usual messages, and nothing else.
func (m *ClientMessage) decode(b []byte) bool {
	whole := fields{rest: b}
	arm := whole.tag()
	inner := fields{rest: whole.bytes()}
	if whole.wrong || len(whole.rest) > 0 {
		return false
	}
	switch arm {
	case readPing:
		*m = ClientMessage{Kind: coordination.ClientPing, Opaque: inner.opaque()}
	case readPong:
		*m = ClientMessage{Kind: coordination.ClientPong, Opaque: inner.opaque()}
	case readAcquire:
		*m = inner.acquire()
	case readRelease:
		*m = inner.release()
	default:
		return false
	}
	return !inner.wrong
}

// fields is the unread rest of a message.
type fields struct {
	rest  []byte
	wrong bool // it is not to be read by hand
}

func (f *fields) opaque() (opaque uint64) {
	for len(f.rest) > 0 {
		switch f.tag() {
		case readOpaque:
			opaque = f.varint()
		default:
			f.leave()
		}
	}
	return opaque
}

func (f *fields) acquire() ClientMessage {
	r := &coordination.Request{Kind: coordination.RequestAcquire}
	m := ClientMessage{Kind: coordination.ClientSemaphore, Request: r}
	for len(f.rest) > 0 {
		switch f.tag() {
		case readReqID:
			m.ReqID = f.varint()
		case readName:
			r.Name = f.text()
		case readTimeout:
			r.TimeoutMillis = f.varint()
		case readCount:
			r.Count = f.varint()
		case readData:
			r.Data = append([]byte(nil), f.bytes()...)
		case readEphemeral:
			r.Ephemeral = protowire.DecodeBool(f.varint())
		default:
			f.leave()
		}
	}
	return m
}

func (f *fields) release() ClientMessage {
	r := &coordination.Request{Kind: coordination.RequestRelease}
	m := ClientMessage{Kind: coordination.ClientSemaphore, Request: r}
	for len(f.rest) > 0 {
		switch f.tag() {
		case readReqID:
			m.ReqID = f.varint()
		case readName:
			r.Name = f.text()
		default:
			f.leave()
		}
	}
	return m
}

// leave leaves the message to the generated code.
func (f *fields) leave() { f.rest, f.wrong = nil, true }

// tag returns the next tag, or 0 at the end.
func (f *fields) tag() byte {
	if len(f.rest) == 0 {
		return 0
	}
	tag := f.rest[0]
	f.rest = f.rest[1:]
	return tag
}

func (f *fields) varint() uint64 {
	v, n := protowire.ConsumeVarint(f.rest)
	if n < 0 {
		f.leave()
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

// bytes is part of the message, not a copy.
func (f *fields) bytes() []byte {
	v, n := protowire.ConsumeBytes(f.rest)
	if n < 0 {
		f.leave()
		return nil
	}
	f.rest = f.rest[n:]
	return v
}

func (f *fields) text() string {
	v := f.bytes()
	if !utf8.Valid(v) {
		f.leave()
		return ""
	}
	return string(v)
}
