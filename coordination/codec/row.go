package codec

import (
	"encoding/binary"
	"fmt"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
)

const (
	nodeBytes  = 8
	keyBytes   = nodeBytes + 1 + 8
	placeBytes = 4 // of a longer key
)

// NodePrefix returns what the keys of all rows of one coordination node begin with. Its result for 0 covers
// the rows that belong to no node.
func NodePrefix(id coordination.NodeID) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, nodeBytes), uint64(id))
}

// EncodeRow returns the key and the value under which a row is stored; for a DeletedRow the key to delete,
// and deleted. Equal rows have equal encodings.
func EncodeRow(row coordination.Row) (key, value []byte, deleted bool) {
	k := row.Key()
	key = binary.BigEndian.AppendUint64(make([]byte, 0, keyBytes), uint64(k.Node))
	key = binary.BigEndian.AppendUint64(append(key, byte(k.Kind)), k.ID)
	if k.Place != 0 {
		key = binary.BigEndian.AppendUint32(key, uint32(k.Place))
	}
	if _, deleted = row.(coordination.DeletedRow); deleted {
		return key, nil, true
	}
	w := wire{mode: measuring}
	w.row(row)
	w = wire{mode: writing, data: append(make([]byte, 0, 1+w.size), byte(sinceRow(row)))}
	w.row(row)
	return key, w.data, false
}

// DecodeRow reads what EncodeRow wrote. The row shares no memory with key and value. It fails on a version or
// a kind that this program does not know, naming it, and on everything that is not the one encoding of a row.
func DecodeRow(key, value []byte) (coordination.Row, error) {
	k, err := decodeKey(key)
	if err != nil {
		return nil, err
	}
	if len(value) == 0 {
		return nil, fmt.Errorf("row %x has no value", key)
	}
	if value[0] < versionFirst || value[0] > Version {
		return nil, fmt.Errorf("row %x has format version %d, this program knows version %d", key, value[0],
			Version)
	}
	w := reader(value[1:], true)
	row := w.readRow(k)
	if err := w.finish(); err != nil {
		return nil, fmt.Errorf("row %x is broken: %w", key, err)
	}
	if since := sinceRow(row); since != uint64(value[0]) {
		return nil, fmt.Errorf("row %x has format version %d, and not %d, with which its form came", key,
			value[0], since)
	}
	return row, nil
}

func decodeKey(key []byte) (coordination.RowKey, error) {
	if len(key) != keyBytes && len(key) != keyBytes+placeBytes {
		return coordination.RowKey{}, fmt.Errorf("row %x has a key of %d bytes, not %d", key, len(key),
			keyBytes)
	}
	k := coordination.RowKey{
		Node: coordination.NodeID(binary.BigEndian.Uint64(key)),
		Kind: coordination.RowKind(key[nodeBytes]),
		ID:   binary.BigEndian.Uint64(key[nodeBytes+1:]),
	}
	if k.Kind < coordination.RowMachine || k.Kind > coordination.RowResource {
		return k, fmt.Errorf("row %x is of kind %d, which is unknown to this program", key, k.Kind)
	}
	ofNone := k.Kind == coordination.RowMachine || k.Kind == coordination.RowPath ||
		k.Kind == coordination.RowUser || k.Kind == coordination.RowSigningKey
	if len(key) > keyBytes {
		k.Place = coordination.Place(binary.BigEndian.Uint32(key[keyBytes:]))
		if k.Kind != coordination.RowUser && k.Kind != coordination.RowSigningKey || k.Place == 0 {
			return k, fmt.Errorf("row %x has a place where there is none", key)
		}
	}
	single := k.Kind == coordination.RowMachine || k.Kind == coordination.RowNode
	if ofNone != (k.Node == 0) || single != (k.ID == 0) {
		return k, fmt.Errorf("row %x has an id where there is none, or none where there is one", key)
	}
	return k, nil
}

// row passes the fields of a row to measure or to write it.
func (w *wire) row(row coordination.Row) {
	switch r := row.(type) {
	case coordination.MachineRow:
		w.machineRow(&r)
	case coordination.PathRow:
		w.pathRow(&r)
	case coordination.NodeRow:
		w.nodeRow(&r)
	case coordination.SessionRow:
		w.sessionRow(&r)
	case coordination.SemaphoreRow:
		w.semaphoreRow(&r)
	case coordination.LinkRow:
		w.linkRow(&r)
	case coordination.UserRow:
		w.userRow(&r)
	case coordination.SigningKeyRow:
		w.signingKeyRow(&r)
	case coordination.ResourceRow:
		w.resourceRow(&r)
	default:
		panic(fmt.Sprintf("codec: %T has no encoding", row))
	}
}

// readRow reads the fields of the row whose key is given.
func (w *wire) readRow(k coordination.RowKey) coordination.Row {
	switch k.Kind {
	case coordination.RowMachine:
		var r coordination.MachineRow
		w.machineRow(&r)
		return r
	case coordination.RowPath:
		r := coordination.PathRow{Entry: scheme.Entry{ID: scheme.EntryID(k.ID)}}
		w.pathRow(&r)
		return r
	case coordination.RowNode:
		r := coordination.NodeRow{ID: k.Node}
		w.nodeRow(&r)
		return r
	case coordination.RowSession:
		r := coordination.SessionRow{Node: k.Node, ID: coordination.SessionID(k.ID)}
		w.sessionRow(&r)
		return r
	case coordination.RowSemaphore:
		r := coordination.SemaphoreRow{Node: k.Node, ID: coordination.SemaphoreID(k.ID)}
		w.semaphoreRow(&r)
		return r
	case coordination.RowUser:
		r := coordination.UserRow{User: accounts.User{ID: accounts.Position{Index: k.ID,
			Place: uint32(k.Place)}}}
		w.userRow(&r)
		return r
	case coordination.RowSigningKey:
		r := coordination.SigningKeyRow{SigningKey: accounts.SigningKey{ID: accounts.Position{Index: k.ID,
			Place: uint32(k.Place)}}}
		w.signingKeyRow(&r)
		return r
	case coordination.RowResource:
		r := coordination.ResourceRow{Node: k.Node, ID: coordination.ResourceID(k.ID)}
		w.resourceRow(&r)
		return r
	}
	r := coordination.LinkRow{Node: k.Node, Order: coordination.OrderID(k.ID)}
	w.linkRow(&r)
	return r
}

func (w *wire) machineRow(r *coordination.MachineRow) {
	number(w, 1, &r.Index)
	number(w, 2, &r.NextNode)
	number(w, 3, &r.Digest)
	number(w, 4, &r.Lineage)
	number(w, 5, &r.CounterBase)
	number(w, 6, &r.StampMillis)
	w.limits(7, &r.Limits)
	number(w, 8, &r.ClockMillis)
	number(w, 9, &r.ClockBaseMillis)
	number(w, 10, &r.ClockTerm)
	number(w, 11, &r.LineageSince)
	number(w, 12, &r.QuietTerm)
	number(w, 13, &r.HeirTerm)
	number(w, 14, &r.CalmSinceMillis)
	number(w, 15, &r.NextVersion)
}

func (w *wire) pathRow(r *coordination.PathRow) {
	number(w, 1, &r.Parent)
	w.text(2, &r.Name)
	number(w, 3, &r.Kind)
	number(w, 4, &r.Node)
	w.text(5, &r.Owner)
	messages(w, 6, &r.Permissions, func(w *wire, p *scheme.Permission) {
		w.text(1, &p.Subject)
		w.texts(2, &p.Names)
	})
	w.flag(7, &r.InterruptInheritance)
	number(w, 8, &r.Created.PlanStep)
	number(w, 9, &r.Created.TxID)
	w.quota(10, &r.Quota)
}

func (w *wire) nodeRow(r *coordination.NodeRow) {
	w.config(1, &r.Config)
	number(w, 6, &r.NextSession)
	number(w, 7, &r.NextSemaphore)
	number(w, 8, &r.NextOrder)
	number(w, 9, &r.NextResource)
	number(w, 10, &r.History)
}

func (w *wire) resourceRow(r *coordination.ResourceRow) {
	w.text(1, &r.Path)
	w.properties(2, &r.ResourceProperties)
}

func (w *wire) sessionRow(r *coordination.SessionRow) {
	number(w, 1, &r.TimeoutMillis)
	w.text(2, &r.Description)
	w.text(3, &r.ProtectionKey)
	w.epoch(4, &r.AttachEpoch)
	number(w, 6, &r.Nonce)
	number(w, 7, &r.BeganMillis)
	w.identity(8, &r.Owner)
	number(w, 12, &r.AbsentSince)
	number(w, 13, &r.AbsentTotalMillis)
}

func (w *wire) semaphoreRow(r *coordination.SemaphoreRow) {
	w.text(1, &r.Name)
	w.bytes(2, &r.Data)
	number(w, 3, &r.Limit)
	w.flag(4, &r.Ephemeral)
	number(w, 5, &r.Version)
	number(w, 6, &r.ChangedMillis)
	w.text(7, &r.Author)
}

func (w *wire) linkRow(r *coordination.LinkRow) {
	number(w, 1, &r.Session)
	number(w, 2, &r.Semaphore)
	number(w, 3, &r.Count)
	number(w, 4, &r.TimeoutMillis)
	w.bytes(5, &r.Data)
	w.epoch(6, &r.Address.Epoch)
	number(w, 8, &r.Address.Sequence)
	number(w, 9, &r.WaitEpoch.Index)
	w.flag(10, &r.Owner)
	number(w, 11, &r.WaitEpoch.Place)
	number(w, 12, &r.BeganMillis)
	number(w, 13, &r.Since)
}
