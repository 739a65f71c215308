package raftstore

import (
	"encoding/json"

	"github.com/coordd/coordd/raftstore/membership"
)

// checkpointFormat is the version of checkpointMeta.
const checkpointFormat = 1

// checkpointMeta is the record of a checkpoint: it stands in the manifest, and goes with the rows to other members and
// into backups.
type checkpointMeta struct {
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
	// Lineage is of the last restore or forced recovery, see Store.Lineage.
	Lineage uint64 `json:"lineage,omitempty"`
	// Forced is the last entry of the log when this member was made the only one; membership entries up to it
	// are void.
	Forced uint64 `json:"forced,omitempty"`
}

func firstCheckpoint(id identity) checkpointMeta {
	return checkpointMeta{
		Format:  checkpointFormat,
		Cluster: id.Cluster,
		Member:  id.Member,
		Conf:    membership.Conf{Voters: []uint64{id.Member}},
	}
}

// stored returns the record as the manifest has it.
func (m checkpointMeta) stored() []byte {
	m.Rows, m.Sum = 0, 0
	return m.text()
}

func (m checkpointMeta) text() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // numbers and lists of numbers
	}
	return b
}

// encode returns the record as it is sent.
func (m checkpointMeta) encode() []byte { return sealed(m.text()) }

func decodeCheckpointMeta(path string, sent []byte) (checkpointMeta, error) {
	text, err := unseal(sent)
	if err != nil {
		return checkpointMeta{}, corrupt(path, 0, "the checkpoint record: %v", err)
	}
	return readCheckpointMeta(path, text)
}

func readCheckpointMeta(path string, text []byte) (checkpointMeta, error) {
	var m checkpointMeta
	if err := json.Unmarshal(text, &m); err != nil {
		return m, corrupt(path, 0, "the checkpoint record: %v", err)
	}
	if m.Format > checkpointFormat {
		return m, &FormatError{File: path, Found: m.Format, Known: checkpointFormat}
	}
	if m.Conf.Index == 0 { // a program from before the field has written the record
		m.Conf.Index = m.Index
	}
	return m, nil
}
