package raftstore

import (
	"encoding/binary"
	"encoding/json"
	"path/filepath"

	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"
)

// raft-wal's description of its segments lives in wal-meta.db, in the buckets and under the key the library
// itself uses. We keep the file ourselves to have a checksum next to the description, our own values beside
// it, and points where errors can be injected.
const (
	walMetaBucket  = "wal-meta"
	walStableName  = "stable"
	walStateKey    = "m"         // raft-wal's: JSON of types.PersistentState
	walStateSumKey = "m-sealed"  // ours: checksum of it
	hardStateKey   = "hardstate" // ours: term, vote, commit
	tailMadeKey    = "tail-made" // ours: id of the last segment that is durable in full length
)

// hardState is what raft must not forget: the term, the vote in it, and an index known to be committed and
// durable here. The commit index is only written along with a change of the others and may be old.
type hardState struct {
	term, vote, commit uint64
}

const hardStateFormat = 1

func (h hardState) encode() []byte {
	b := []byte{hardStateFormat}
	for _, v := range []uint64{h.term, h.vote, h.commit} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return sealed(b)
}

// walMeta implements types.MetaStore.
type walMeta struct {
	disk *disk
	db   *bbolt.DB
}

var _ types.MetaStore = (*walMeta)(nil)

// createWALMeta makes the file of an empty log.
func createWALMeta(d *disk, dir string) error {
	return createBolt(d, filepath.Join(dir, walMetaFile), func(db *bbolt.DB) error {
		return db.Update(func(tx *bbolt.Tx) error {
			meta, err := tx.CreateBucket([]byte(walMetaBucket))
			if err != nil {
				return err
			}
			if _, err := tx.CreateBucket([]byte(walStableName)); err != nil {
				return err
			}
			return putWALState(meta, types.PersistentState{})
		})
	})
}

func openWALMeta(d *disk, dir string) (*walMeta, error) {
	db, err := openBolt(d, filepath.Join(dir, walMetaFile), 0)
	if err != nil {
		return nil, err
	}
	return &walMeta{disk: d, db: db}, nil
}

func putWALState(meta *bbolt.Bucket, state types.PersistentState) error {
	b, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if err := meta.Put([]byte(walStateKey), b); err != nil {
		return err
	}
	return meta.Put([]byte(walStateSumKey), sealed(b)[:4])
}

// Load implements types.MetaStore.
func (m *walMeta) Load(string) (state types.PersistentState, err error) {
	err = guardBolt(m.db.Path(), func() error {
		return m.db.View(func(tx *bbolt.Tx) error {
			b, err := mustBucket(tx, walMetaBucket)
			if err != nil {
				return err
			}
			return json.Unmarshal(b.Get([]byte(walStateKey)), &state)
		})
	})
	return state, err
}

// CommitState implements types.MetaStore. Every segment is in our codec; see segmentFiler.
func (m *walMeta) CommitState(state types.PersistentState) error {
	for i := range state.Segments {
		state.Segments[i].Codec = entryCodecID
	}
	return commitBolt(m.disk, m.db, func(tx *bbolt.Tx) error {
		b, err := mustBucket(tx, walMetaBucket)
		if err != nil {
			return err
		}
		return putWALState(b, state)
	})
}

// GetStable implements types.MetaStore.
func (m *walMeta) GetStable(key []byte) (value []byte, err error) {
	err = guardBolt(m.db.Path(), func() error {
		return m.db.View(func(tx *bbolt.Tx) error {
			b, err := mustBucket(tx, walStableName)
			if err != nil {
				return err
			}
			value = append([]byte(nil), b.Get(key)...)
			return nil
		})
	})
	return value, err
}

// SetStable implements types.MetaStore.
func (m *walMeta) SetStable(key, value []byte) error {
	return commitBolt(m.disk, m.db, func(tx *bbolt.Tx) error {
		b, err := mustBucket(tx, walStableName)
		if err != nil {
			return err
		}
		return b.Put(key, value)
	})
}

// setTailMade records that segment id is durable in full length.
func (m *walMeta) setTailMade(id uint64) error {
	return m.SetStable([]byte(tailMadeKey), sealed(binary.LittleEndian.AppendUint64(nil, id)))
}

// Close implements types.MetaStore.
func (m *walMeta) Close() error { return m.db.Close() }

// walMetaImage is wal-meta.db as found on disk.
type walMetaImage struct {
	state    types.PersistentState
	hard     hardState
	tailMade uint64
	hasTail  bool // tailMade is set
}

// readWALMeta reads wal-meta.db without changing it.
func readWALMeta(dir string) (walMetaImage, error) {
	path := filepath.Join(dir, walMetaFile)
	values := map[string][]byte{}
	err := readBolt(path, func(bucket string, key, value []byte) error {
		values[bucket+"/"+string(key)] = append([]byte(nil), value...)
		return nil
	})
	if err != nil {
		return walMetaImage{}, err
	}
	return decodeWALMeta(path, values)
}

func decodeWALMeta(path string, values map[string][]byte) (walMetaImage, error) {
	var img walMetaImage
	raw, sum := values[walMetaBucket+"/"+walStateKey], values[walMetaBucket+"/"+walStateSumKey]
	if raw == nil || sum == nil {
		return img, missingValue(path, "the list of segments")
	}
	if _, err := unseal(append(sum, raw...)); err != nil {
		return img, badValue(path, "the list of segments", err)
	}
	if err := json.Unmarshal(raw, &img.state); err != nil {
		return img, badValue(path, "the list of segments", err)
	}
	if raw, ok := values[walStableName+"/"+hardStateKey]; ok {
		b, err := unseal(raw)
		if err != nil {
			return img, badValue(path, "term and vote", err)
		}
		if len(b) > 0 && b[0] > hardStateFormat {
			return img, &FormatError{File: path, Found: int(b[0]), Known: hardStateFormat}
		}
		if len(b) != 25 {
			return img, corrupt(path, 0, "term and vote have %d bytes", len(b))
		}
		img.hard = hardState{
			term:   binary.LittleEndian.Uint64(b[1:]),
			vote:   binary.LittleEndian.Uint64(b[9:]),
			commit: binary.LittleEndian.Uint64(b[17:]),
		}
	}
	if raw, ok := values[walStableName+"/"+tailMadeKey]; ok {
		b, err := unseal(raw)
		if err != nil || len(b) != 8 {
			return img, badValue(path, "the mark of the last segment", err)
		}
		img.tailMade, img.hasTail = binary.LittleEndian.Uint64(b), true
	}
	return img, nil
}
