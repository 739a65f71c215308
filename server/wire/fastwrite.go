package wire

import (
	"bytes"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coordd/coordd/coordination"
)

// Reply is a reply of the Front that is written straight to the wire: the frequent ones do not become a generated
// message first.
type Reply coordination.Reply

// The tags of what is written by hand.
const (
	writePing     = 1<<3 | byte(protowire.BytesType)
	writePong     = 2<<3 | byte(protowire.BytesType)
	writePending  = 8<<3 | byte(protowire.BytesType)
	writeAcquired = 9<<3 | byte(protowire.BytesType)
	writeReleased = 10<<3 | byte(protowire.BytesType)
	writeChanged  = 12<<3 | byte(protowire.BytesType)
)

// Message is the reply as a message.
func (r *Reply) Message() *Ydb_Coordination.SessionResponse {
	return ToClient((*coordination.Reply)(r))
}

// Encode gives the reply as it is written, or, where that is not one of the usual ones, the message that is
// to be encoded.
func (r *Reply) Encode() (encoded []byte, other any) {
	if r.Description != nil {
		if described, err := ToClientShared((*coordination.Reply)(r)); err == nil {
			defer described.Gone()
			return bytes.Join(described.Pieces(), nil), nil
		}
	} else if encoded = r.encode(); encoded != nil {
		return encoded, nil
	}
	return nil, r.Message()
}

func (r *Reply) encode() []byte {
	var w written
	switch {
	case r.Kind == coordination.ReplyPing:
		w.begin(writePing)
		w.number(1, r.Opaque)
	case r.Kind == coordination.ReplyPong:
		w.begin(writePong)
		w.number(1, r.Opaque)
	case r.Kind == coordination.ReplyPending:
		w.begin(writePending)
		w.number(1, r.ReqID)
	case r.Kind == coordination.ReplyChanged:
		w.begin(writeChanged)
		w.number(1, r.ReqID)
		w.truth(2, r.DataChanged)
		w.truth(3, r.OwnersChanged)
	case r.Kind == coordination.ReplyResult && r.Refusal == nil && r.Request == coordination.RequestAcquire:
		w.begin(writeAcquired)
		w.success(r)
	case r.Kind == coordination.ReplyResult && r.Refusal == nil && r.Request == coordination.RequestRelease:
		w.begin(writeReleased)
		w.success(r)
	default:
		return nil
	}
	w.room[1] = byte(w.length - 2)
	return bytes.Clone(w.room[:w.length])
}

// written is a message as it grows: its tag, its length, which fits into a byte, and its fields.
type written struct {
	room   [2 + 3*(1+10)]byte // the longest has three numbers
	length int
}

func (w *written) begin(tag byte) { w.room[0], w.length = tag, 2 }

// success is the fields of an acquire's and a release's result.
func (w *written) success(r *Reply) {
	w.number(1, r.ReqID)
	w.number(2, uint64(Ydb.StatusIds_SUCCESS))
	w.truth(4, r.Done)
}

// number adds a field, which is left out where it is 0.
func (w *written) number(field byte, v uint64) {
	if v == 0 {
		return
	}
	w.room[w.length] = field<<3 | byte(protowire.VarintType)
	w.length += 1 + len(protowire.AppendVarint(w.room[w.length+1:w.length+1], v))
}

func (w *written) truth(field byte, v bool) { w.number(field, protowire.EncodeBool(v)) }
