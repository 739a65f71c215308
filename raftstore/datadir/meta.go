package datadir

import (
	"encoding/json"

	"github.com/coordd/coordd/raftstore/membership"
)

// MetaFormat is the version of Meta.
const MetaFormat = 1

// Meta is the record of a checkpoint. It stands in the manifest, and goes with the rows to other members and
// into backups.
type Meta struct {
	Format  int             `json:"format"`
	Cluster uint64          `json:"cluster"`
	Member  uint64          `json:"member"`
	Index   uint64          `json:"index"`
	Term    uint64          `json:"term"`
	Conf    membership.Conf `json:"conf"`
	// Rows counts the rows that were sent, and Sum adds up their checksums. The manifest has those of each file.
	Rows uint64 `json:"rows,omitempty"`
	Sum  uint64 `json:"sum,omitempty"`

	// Restored is the last entry that came with a checkpoint of another member, or with a backup. The log
	// begins behind it. As long as Index is the same, nothing has been stored since, and there need not be a
	// log.
	Restored uint64 `json:"restored,omitempty"`
	// Lineage is of the last restore or forced recovery, see raftstore.Store.
	Lineage uint64 `json:"lineage,omitempty"`
	// Forced is the last entry of the log when this member was made the only one; membership entries up to it
	// are void.
	Forced uint64 `json:"forced,omitempty"`
}

func FirstMeta(id Identity) Meta {
	return Meta{
		Format:  MetaFormat,
		Cluster: id.Cluster,
		Member:  id.Member,
		Conf:    membership.Conf{Voters: []uint64{id.Member}},
	}
}

// stored returns the record as the manifest has it.
func (m Meta) stored() []byte {
	m.Rows, m.Sum = 0, 0
	return m.text()
}

func (m Meta) text() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // numbers and lists of numbers
	}
	return b
}

// Encode returns the record as it is sent.
func (m Meta) Encode() []byte { return sealed(m.text()) }

// DecodeMeta reads what Encode has written. path stands in errors.
func DecodeMeta(path string, sent []byte) (Meta, error) {
	text, err := unseal(sent)
	if err != nil {
		return Meta{}, corrupt(path, 0, "the checkpoint record: %v", err)
	}
	return readMeta(path, text)
}

func readMeta(path string, text []byte) (Meta, error) {
	var m Meta
	if err := json.Unmarshal(text, &m); err != nil {
		return m, corrupt(path, 0, "the checkpoint record: %v", err)
	}
	if m.Format > MetaFormat {
		return m, &FormatError{File: path, Found: m.Format, Known: MetaFormat}
	}
	if m.Conf.Index == 0 { // a program from before the field has written the record
		m.Conf.Index = m.Index
	}
	return m, nil
}
