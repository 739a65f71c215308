package datadir

import (
	"encoding/json"

	"github.com/coordd/coordd/raftstore/files"
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
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // numbers and lists of numbers
	}
	return b
}

// Encode returns the record as it is sent.
func (m Meta) Encode() []byte { return files.Seal(m) }

// DecodeMeta reads what Encode has written. path stands in errors.
func DecodeMeta(path string, sent []byte) (m Meta, err error) {
	err = m.check(path, files.Unseal(sent, &m))
	return m, err
}

func readMeta(path string, text []byte) (m Meta, err error) {
	err = m.check(path, json.Unmarshal(text, &m))
	return m, err
}

// check judges a record that was decoded, with an error or without one.
func (m *Meta) check(path string, err error) error {
	if err != nil {
		return corrupt(path, 0, "the checkpoint record: %v", err)
	}
	if m.Format != MetaFormat {
		return &FormatError{File: path, Found: m.Format, Known: MetaFormat}
	}
	return nil
}
