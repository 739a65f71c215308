package membership

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/raftstore/peerpb"
)

// memberFormat is the version of the member record in membership entries.
const memberFormat = 1

// Record describes one member to all. It travels in membership entries and is kept with the checkpoint.
type Record struct {
	ID          uint64 `json:"id"`
	Name        string `json:"name"`
	Peer        string `json:"peer"`
	Client      string `json:"client,omitempty"`
	Incarnation uint64 `json:"incarnation,omitempty"` // of its data directory; 0 until it was first seen
	Version     uint64 `json:"version,omitempty"`
	// Included: the entry that adds this member is still to come, see Conf.Including.
	Included bool `json:"included,omitempty"`
}

// DecodeRecord returns nil for a membership entry without a record.
func DecodeRecord(b []byte) (*Record, error) {
	if len(b) == 0 {
		return nil, nil
	}
	m := &peerpb.Member{}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, err
	}
	if m.GetFormat() != memberFormat {
		return nil, fmt.Errorf("member record has format %d, this program reads %d", m.GetFormat(),
			memberFormat)
	}
	return &Record{
		ID: m.GetId(), Name: m.GetName(), Peer: m.GetPeerAddress(), Client: m.GetClientAddress(),
		Incarnation: m.GetIncarnation(), Version: m.GetVersion(),
	}, nil
}

// Encode returns m as a membership entry has it.
func (m Record) Encode() []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&peerpb.Member{
		Format: memberFormat, Id: m.ID, Name: m.Name, PeerAddress: m.Peer, ClientAddress: m.Client,
		Incarnation: m.Incarnation, Version: m.Version,
	})
	if err != nil {
		panic(err) // names and addresses are checked to be UTF-8
	}
	return b
}

// IDText returns the id of a cluster or of a member as people read and type it, and as files and hashes have it: 16
// hexadecimal digits.
func IDText(id uint64) string { return fmt.Sprintf("%016x", id) }
