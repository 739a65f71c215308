package streams

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/server/group/relaypb"
)

const (
	// relayBatchBytes is about the size of a batch, so that a request for a permit, and the answer, do not wait behind
	// all rosters of a leader change. A larger message goes in pieces, so that both ends see that it moves.
	relayBatchBytes = 128 << 10
	// relayStream and permitStream are the names of the streams between servers.
	relayStream  = "relay"
	permitStream = "permit"
	// maxPiecedBytes bounds a message in pieces: the largest description, or roster, with the fields around it.
	maxPiecedBytes = 80 << 20
	// maxRosterBytes bounds the open requests of a stream at a leader change; one with more is ended. Two fit
	// into the largest message that members send each other.
	maxRosterBytes = 32 << 20
)

// firstOf splits off the messages of one batch.
func firstOf[M proto.Message](list []M) (batch, rest []M) {
	n, bytes := 0, 0
	for n < len(list) && (n == 0 || bytes < relayBatchBytes) {
		size := proto.Size(list[n])
		if n > 0 && size > relayBatchBytes {
			break
		}
		bytes += size
		n++
	}
	if n == len(list) {
		return list, nil
	}
	return list[:n:n], list[n:]
}

// counts returns the bytes of ToLeader.room that a message takes.
func counts(m *relaypb.Message) uint64 {
	if m.GetDescription() == nil {
		return 0
	}
	return uint64(proto.Size(m.GetDescription()))
}

// pieces is an encoded message that goes over a relay in pieces.
type pieces []byte

// next splits off a piece, nil without any left.
func (p *pieces) next() *relaypb.Piece {
	if len(*p) == 0 {
		return nil
	}
	n := min(len(*p), relayBatchBytes)
	piece := &relaypb.Piece{Data: (*p)[:n:n], Last: n == len(*p)}
	if *p = (*p)[n:]; piece.Last {
		*p = nil
	}
	return piece
}

// add appends a piece that came, and decodes the message into m once it is whole.
func (p *pieces) add(piece *relaypb.Piece, m proto.Message) (whole bool, err error) {
	if len(*p)+len(piece.GetData()) > maxPiecedBytes {
		return false, errTooLong
	}
	if *p = append(*p, piece.GetData()...); !piece.GetLast() {
		return false, nil
	}
	data := *p
	*p = nil
	return true, proto.Unmarshal(data, m)
}

var errTooLong = errors.New("a message in pieces has no end")
