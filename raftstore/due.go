package raftstore

import (
	"sync"
	"sync/atomic"
)

// due measures the log that a restart would replay: what was applied since the last checkpoint was begun. Its
// bytes are the store's to count. How many commands there are in an entry only the handler knows, who has
// read it when it tells that it was Applied. So what is replayed counts like what is new, and a checkpoint as
// of the last entry that was applied leaves nothing. What was handed over and not applied yet, handedBytesMax
// of it, does not count.
type due struct {
	bytes, commands atomic.Int64

	mu      sync.Mutex
	applied uint64       // the last entry that counts
	handed  []handedBulk // not yet applied, oldest first
}

// handedBulk is some entries that were handed over together.
type handedBulk struct {
	last  uint64
	bytes int
}

// handOver notes entries that the handler gets.
func (d *due) handOver(last uint64, bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handed = append(d.handed, handedBulk{last, bytes})
}

// apply counts the entries up to index, which had so many commands. An entry without any takes its time, too.
func (d *due) apply(index uint64, commands int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.handed) > 0 && d.handed[0].last <= index {
		d.bytes.Add(int64(d.handed[0].bytes))
		d.handed = d.handed[1:]
	}
	if index > d.applied {
		d.commands.Add(max(int64(commands), int64(index-d.applied)))
		d.applied = index
	}
}

// begin says that a checkpoint was begun as of the last entry that was applied.
func (d *due) begin() {
	d.bytes.Store(0)
	d.commands.Store(0)
}

// restore says that a checkpoint from elsewhere, as of index, has taken the place of everything.
func (d *due) restore(index uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handed, d.applied = nil, index
	d.begin()
}

// exceeded reports whether there is a quarter more than is allowed.
func (d *due) exceeded(cfg *Config) bool {
	return d.bytes.Load() >= cfg.CheckpointBytes/4*5 || d.commands.Load() >= cfg.CheckpointCommands/4*5
}

// reached reports whether there is one part of how much is allowed.
func (d *due) reached(cfg *Config, part int64) bool {
	return d.bytes.Load() >= cfg.CheckpointBytes/part || d.commands.Load() >= cfg.CheckpointCommands/part
}
