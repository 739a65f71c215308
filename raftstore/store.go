package raftstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/internal/turn"
	"github.com/coordd/coordd/raftstore/datadir"
	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/raftstore/lease"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/memory"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/raftstore/raftlog"
	"github.com/coordd/coordd/raftstore/roster"
)

// Entry is one committed log entry. Data is nil for the entry raft makes at the start of a term and for
// membership entries, which the store handles itself; they are delivered so that indexes have no hole. Data
// is shared with the log: it may be kept but not changed.
type Entry struct {
	Index, Term uint64
	Data        []byte
	Change      *MemberChange // of a membership entry
	// Append is the write that made the entry durable here. It is nil if that was before this start, or is under way
	// while other members have the entry.
	Append *Append
}

// Append is a write of entries to the log: its beginning, its time, and the part of that for which it waited for syncs.
type Append struct {
	Begun         time.Time
	Took, Syncing time.Duration
}

// MemberChange is the change of a member in words; empty: the same members have votes as before.
type MemberChange struct{ Act, Member string }

// Handler receives the events of the log. All methods but Flush are called within the store's turn: one at a time, from
// any goroutine, and in an order that is meaningful. They must return quickly and wait for nothing: nothing is
// replicated meanwhile. They may call those of the store's methods that do not wait; Stop does.
type Handler interface {
	// Committed delivers entries that are durable here and committed, in log order, each once, from the entry
	// after that of the checkpoint on. The slice belongs to the handler.
	Committed(entries []Entry)
	// Leading reports that this member leads term. Entries of older terms may still follow; the handler is up to date
	// once it has applied the first entry of this term.
	Leading(term uint64)
	// Following reports that this member does not lead; leader is 0 while unknown. Proposals of older terms that were
	// not committed may still commit, or may be lost.
	Following(term, leader uint64)
	// ReadReady answers ReadIndex: state that includes index reflects every write finished before the
	// question.
	ReadReady(id, index uint64)
	// CheckpointDone reports that the checkpoint as of index is durable.
	CheckpointDone(index uint64)
	// Flush comes behind any of the other calls, from the same goroutine and with no lock held; another
	// goroutine may be in it, or have a turn, at the same time. Unless the goroutine is busy, the handler may
	// do its work right in it, which spares the way to another goroutine. It may be the one that writes the
	// log, or one that reads what another member says, heartbeats included: what takes longer than some
	// milliseconds does not belong there.
	Flush(busy bool)
	// Failed reports that storage failed or turned out to be damaged. It comes once and last. Nothing more will be
	// durable: the process must end.
	Failed(err error)
}

// Config says where the log lives. The zero value of every threshold is its default.
type Config struct {
	// Dir is the data directory; it is made with mode 0700 if it is missing. Ignored with InMemory.
	Dir string
	// InMemory keeps everything in memory; nothing survives but what Memory has.
	InMemory bool
	// Memory is the place of a data directory with InMemory; nil: the data ends with the store.
	Memory *memory.Kept
	// Logger gets elections and background trouble; nil is slog.Default().
	Logger *slog.Logger

	SegmentBytes    int   // size of a log file; 4 KiB to 1 GiB, default DefaultSegmentBytes
	CheckpointBytes int64 // log applied until a checkpoint is due; default DefaultCheckpointBytes
	// commands applied until a checkpoint is due, see Store.Applied; default DefaultCheckpointCommands
	CheckpointCommands int64
	// entries kept in the log behind a checkpoint; at least 1, default DefaultTailEntriesKept
	TailEntriesKept uint64
	// entries kept for a member that is there and lags; default DefaultLagEntriesKept
	LagEntriesKept uint64
	LagBytesKept   int64 // the same in bytes, for the tail as well; default DefaultLagBytesKept
	TailBytes      int   // recent entries kept in memory; default DefaultTailBytes

	// Cluster makes this server a member of several.
	Cluster Cluster

	// ReserveBytes is the free space below which no more commands should be taken, see Space.Writable; 0 is
	// none.
	ReserveBytes uint64

	// Load gets each row that Rows would give, while Open verifies it: the checkpoint is read once then. What
	// it was given counts only if Open succeeds. Its error, wrapped, ends Open. Nil: nobody wants the rows.
	Load func(key, value []byte) error

	// FreeSpace returns how many bytes may still be written to the file system of a directory; nil asks the
	// system.
	FreeSpace func(dir string) (uint64, error)
	// Slow is called with the name of each step before it changes a file, such as "write log" or "sync log", and may
	// take its time, as a disk does that is slow; nil: it is as it is.
	Slow func(step string)

	spacePause time.Duration                  // tests
	steps      datadir.StepLimits             // the same
	toldEach   time.Duration                  // the same: see progress
	origin     func() (datadir.Origin, error) // the same: of a new directory

	before func(step, path string) error // see disk
	fs     files.FS                      // the same
}

// withDefaults fills in defaults and refuses what cannot work.
func (c Config) withDefaults() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.SegmentBytes = cmp.Or(c.SegmentBytes, DefaultSegmentBytes)
	c.CheckpointBytes = cmp.Or(c.CheckpointBytes, DefaultCheckpointBytes)
	c.CheckpointCommands = cmp.Or(c.CheckpointCommands, DefaultCheckpointCommands)
	c.TailEntriesKept = cmp.Or(c.TailEntriesKept, DefaultTailEntriesKept)
	c.LagEntriesKept = cmp.Or(c.LagEntriesKept, DefaultLagEntriesKept)
	c.LagBytesKept = cmp.Or(c.LagBytesKept, DefaultLagBytesKept)
	c.TailBytes = cmp.Or(c.TailBytes, DefaultTailBytes)
	if c.FreeSpace == nil {
		c.FreeSpace = datadir.FreeBytes
	}
	c.spacePause = cmp.Or(c.spacePause, spacePause)
	if c.Cluster.clock == nil {
		c.Cluster.clock = realClock{}
	}
	switch {
	case c.Dir == "" && !c.InMemory:
		return c, errors.New("no data directory given")
	case c.SegmentBytes < segmentBytesMin || c.SegmentBytes > segmentBytesMax:
		return c, fmt.Errorf("log segments of %d bytes: allowed are %d to %d", c.SegmentBytes,
			segmentBytesMin, segmentBytesMax)
	case c.CheckpointBytes < 0 || c.CheckpointCommands < 0 || c.TailBytes < 0:
		return c, errors.New("a threshold is negative")
	}
	return c, c.Cluster.check(c.InMemory)
}

// Store is one member's copy of the replicated log. Its methods may be called from any goroutine, except that
// Rows comes before Start and nothing comes after Stop.
type Store struct {
	Checkpoints Checkpoints
	Space       Space
	Peers       Peers
	Changes     Changes

	cfg      Config
	identity datadir.Identity
	dir      *datadir.Dir // nil in memory
	disk     *datadir.Disk
	device   raftlog.Device
	rowStore rowDevice
	log      *raftlog.Log
	loaded   uint64         // index of the checkpoint that was opened
	received uint64         // see Received
	learnt   datadir.Learnt // by an earlier run
	lineage  atomic.Uint64
	forced   atomic.Uint64 // see datadir.Meta

	inbox    inbox
	loop     *loop
	appender *appender
	keeper   *keeper
	receiver *receiver
	flow

	view   atomic.Pointer[memberView]
	lease  lease.Lease
	moving atomic.Bool // the leadership is being handed over
	meters meters

	started bool
	ended   func() error // ends the store, once
	stop    chan struct{}
	done    chan struct{}
}

// flow measures what is on its way through the store.
type flow struct {
	backlog atomic.Int64  // bytes proposed and not yet in raft's log
	applied atomic.Uint64 // the last index for which the handler has called Applied
	wake    atomic.Bool   // raft waits for Applied
}

// apply notes that everything up to index is applied, and reports whether raft needs to know soon: it does only if it
// holds something back, otherwise it learns with the next thing that happens.
func (f *flow) apply(index uint64) bool {
	for {
		old := f.applied.Load()
		if index <= old {
			return false
		}
		if f.applied.CompareAndSwap(old, index) {
			return f.wake.Load()
		}
	}
}

// Open takes the data directory for this process, verifies everything in it without changing anything, and
// opens it. Errors: ErrLocked if another process holds it, ErrHalfRestored, *CorruptionError, *FormatError,
// *CondemnedError, and errors of the operating system.
//
// A new member of a cluster waits here until it has been added, or ctx ends. Further errors of a first start:
// ErrEmptied, ErrRemoved and ErrOtherCluster, wrapped.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, stop: make(chan struct{}), done: make(chan struct{})}
	s.disk = &datadir.Disk{Before: cfg.before, Slow: cfg.Slow, FS: cfg.fs, Steps: cfg.steps}
	s.lease.Begin(cfg.Cluster.clock.now)
	if c := cfg.Cluster; c.networked() {
		if s.Peers.network = c.network; s.Peers.network == nil {
			s.Peers.network = c.grpc(cfg.Logger)
		}
	}
	s.inbox.bell = turn.NewBell()
	s.ended = sync.OnceValue(s.end)
	s.Peers.client.Store(&cfg.Cluster.ClientAddress)
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// open opens the data directory, or its substitute in memory, and begins with what is there.
func (s *Store) open(ctx context.Context) error {
	var img *datadir.Image
	var err error
	if s.cfg.InMemory {
		s.cfg.TailBytes = -1 // there is no device to read from
		img, s.device, s.rowStore, err = s.cfg.Memory.Open(s.cfg.Load)
	} else if s.dir, err = datadir.Open(datadir.Options{
		Dir: s.cfg.Dir, Disk: s.disk, SegmentBytes: s.cfg.SegmentBytes, Logger: s.cfg.Logger,
		Load: s.cfg.Load, Progress: s.cfg.toldEach,
		Origin: func() (datadir.Origin, error) {
			if s.cfg.origin != nil {
				return s.cfg.origin()
			}
			return findOrigin(ctx, s.cfg.Cluster, s.Peers.network, s.cfg.Logger)
		},
	}); err == nil {
		img, s.device, s.rowStore = &s.dir.Image, s.dir.Log, s.dir.Rows
	}
	if err != nil {
		return err
	}
	s.identity, s.loaded, s.received = img.Identity, img.Meta.Index, img.Meta.Restored
	s.lineage.Store(img.Meta.Lineage)
	s.forced.Store(img.Meta.Forced)
	first, runs := img.Visible()
	s.log = raftlog.New(s.device, s.cfg.TailBytes, img.Meta, img.Hard, first, runs, img.Entries)
	s.learnt = img.Learnt
	if s.learnt.Lineage != s.lineage.Load() && !s.log.Fresh() {
		s.learnt.Conf = membership.Conf{} // the cluster has gone on without those that sent it
	}
	s.Checkpoints.cfg, s.Checkpoints.log, s.Checkpoints.stopped = &s.cfg, s.log, s.done
	s.Checkpoints.opened(s.loaded)
	s.applied.Store(s.loaded)
	s.Space.cfg = &s.cfg
	s.Space.note = func(short bool) { s.inbox.task(func(l *loop) { l.noteFull(short) }) }
	s.Peers.inbox, s.Changes = &s.inbox, Changes{&s.inbox, s.done}
	return nil
}

// closeFiles closes what is open.
func (s *Store) closeFiles() error {
	if s.dir != nil {
		return s.dir.Close()
	}
	return errors.Join(s.device.Close(), s.rowStore.Close())
}

// Member returns this member's id: random, made with the data directory.
func (s *Store) Member() uint64 { return s.identity.Member }

// Cluster returns the id of the cluster.
func (s *Store) Cluster() uint64 { return s.identity.Cluster }

// MaySpeak reports whether this member leads and a majority has confirmed that lately. Without it a leader
// must say nothing that implies that a session lives. It is cheap.
func (s *Store) MaySpeak() bool { return s.lease.Holds() }

// LoggedIndex is the last entry that the log had when it was opened. What lies between the checkpoint's index and it
// comes again: all of it, unless another member that leads has other entries in its place.
func (s *Store) LoggedIndex() uint64 { return s.log.Found() }

// Received returns the last entry that had come with a checkpoint of another member, or with a backup, when the log was
// opened; 0: none had. This member has not executed the entries up to it one by one since.
func (s *Store) Received() uint64 { return s.received }

// Rows calls fn for each row of the checkpoint in key order; rows under dropped prefixes are left out. The
// slices are valid during the call only. It returns fn's error or a *CorruptionError. Call it before Start,
// or from Handler.Restore on. Config.Load gives the same rows earlier, and without reading the file again.
func (s *Store) Rows(fn func(key, value []byte) error) error { return s.rowStore.Each(fn) }

// Lineage is 0 for a cluster that was never restored. Otherwise it names the last restored backup or
// forced recovery, by a number that is never the same twice and that every member gets. Numbers that must never
// come twice have to be moved forward once for each lineage, before anything else is done in it: what was
// committed after the restored moment is not known here. The store remembers the lineage for ever, the caller
// has to remember which it has begun.
func (s *Store) Lineage() uint64 { return s.lineage.Load() }

// Condemn writes into the data directory that nothing may be started on it any more, see datadir.Dir. In memory there
// is nothing to be written.
func (s *Store) Condemn(reason string) error {
	if s.dir == nil {
		return nil
	}
	return s.dir.Condemn(reason)
}

// Start begins to take part in the cluster; calls of h may come before it returns. A cluster of one elects
// itself at once.
func (s *Store) Start(h Handler) error {
	if s.started {
		return errors.New("the store was started before")
	}
	if err := s.cfg.Cluster.readable(s.log.LastConf()); err != nil {
		return err
	}
	node, err := newNode(s)
	if err != nil {
		return err
	}
	if _, ok := h.(Restorer); !ok && s.Peers.network != nil {
		return errors.New("the handler of a member of a cluster must be a Restorer")
	}
	s.assemble(node, h)
	s.loop.direct = true
	if s.Peers.network != nil { // from here on others may take turns
		if s.Peers.unlisten, err = s.Peers.network.Listen(endpoint{s}); err != nil {
			s.Peers.out.Close()
			return err
		}
		s.Peers.roster.Start()
	}
	s.started = true
	go s.appender.run()
	go s.keeper.run()
	go s.loop.run()
	s.Space.done = make(chan struct{})
	go s.Space.run(s.stop)
	return nil
}

// assemble makes the parts of a running store, and runs none of them.
func (s *Store) assemble(node *raft.RawNode, h Handler) {
	s.view.Store(&memberView{conf: s.log.LastConf(), fresh: s.log.Fresh()})
	if s.Peers.network != nil {
		s.Peers.roster = newRoster(s)
		s.Peers.roster.Ask()
		s.Peers.out = peers.New(endpoint{s}, s.identity.Member, s.Peers.network, s.cfg.Logger)
		s.log.TakeSnapshot = func() (*pb.Snapshot, error) { return lastCheckpoint(s.rowStore) }
	}
	makeWriters(s)
	s.loop = newLoop(s, node, h)
	s.appender.loop = s.loop
}

// makeWriters makes the parts that write.
func makeWriters(s *Store) {
	s.keeper = newKeeper(s)
	s.keeper.hurry, s.keeper.room = s.Checkpoints.LogGrows, func() bool { return !s.Space.short.Load() }
	s.Checkpoints.keeper = s.keeper
	s.receiver = newReceiver(s)
	s.appender = newAppender(s)
}

// newRoster returns the roster of this member, which asks nobody yet.
func newRoster(s *Store) *roster.Roster {
	c := &s.cfg.Cluster
	return roster.New(roster.Config{
		Self: s.identity, Address: c.address(), Join: c.Join, TLS: c.TLS, Network: s.Peers.network,
		Logger: s.cfg.Logger, Fresh: s.log.Fresh, Lineage: s.lineage.Load, Fail: s.inbox.fail,
		Save: s.dir.SaveLearnt,
	}, s.log.LastConf(), s.learnt)
}

// newNode makes the raft state machine; its constructor panics on a log it cannot use.
func newNode(s *Store) (node *raft.RawNode, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("start raft: %v", r)
		}
	}()
	return raft.NewRawNode(&raft.Config{
		ID:                        s.identity.Member,
		ElectionTick:              electionTicks,
		HeartbeatTick:             heartbeatTicks,
		Storage:                   s.log,
		Applied:                   s.loaded,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             messageBytesMax,
		MaxCommittedSizePerReady:  handedBytesMax,
		MaxUncommittedEntriesSize: uncommittedBytesMax,
		MaxInflightMsgs:           inflightMessagesMax,
		MaxInflightBytes:          inflightBytesMax,
		CheckQuorum:               true,
		PreVote:                   true,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		Logger:                    raftLogger{s.cfg.Logger},
	})
}

// Propose adds commands to the log, one entry each, in this order and before those of a later call. It never
// blocks. The commands are dropped if this member does not lead term (any more): the handler has been or will be
// notified. Each command has 1 to MaxCommandBytes bytes; the slices belong to the store from here on.
func (s *Store) Propose(term uint64, commands [][]byte) {
	if len(commands) == 0 {
		return
	}
	bytes := 0
	for _, c := range commands {
		if len(c) == 0 || len(c) > MaxCommandBytes {
			panic(fmt.Sprintf("raftstore: command of %d bytes", len(c)))
		}
		bytes += len(c)
	}
	s.backlog.Add(int64(bytes))
	s.meters.proposed.Add(uint64(len(commands)))
	s.inbox.post(func(m *mail) { m.proposals = append(m.proposals, proposal{term, commands, bytes}) })
	if s.appender.idle() {
		s.loop.kick()
	} else { // it gathers behind the write under way
		s.inbox.bell.Ring()
	}
}

// Writing reports whether the log is being written, so that a proposal made now is written after that. The handler's
// Flush is called when nothing more is to be written.
func (s *Store) Writing() bool { return !s.appender.idle() }

// AwaitsDisk reports whether one write of the log has been under way for long.
func (s *Store) AwaitsDisk() bool { return s.appender.stuck(slowWriteMax) }

// Backlog returns how many bytes of commands wait in front of the log because too much is under way already.
// It is near 0 unless the disk or the handler is slower than the clients; then no more should be taken from
// them.
func (s *Store) Backlog() int64 { return s.backlog.Load() }

// ReadIndex asks for a point after which reads are linearizable; ReadReady answers with the same id. There is
// no answer when leadership is lost meanwhile. Use a fresh id for each attempt, never one twice.
func (s *Store) ReadIndex(id uint64) {
	s.inbox.put(func(m *mail) { m.reads = append(m.reads, id) })
}

// Applied reports that the handler has dealt with all entries up to index, the last one of a Committed; it bounds how
// much is handed over ahead. commands is the number of commands in the entries since the last call: the store only
// carries bytes, and the length of a restart depends on commands, not on entries.
func (s *Store) Applied(index uint64, commands int) {
	s.Checkpoints.due.apply(index, commands)
	if s.apply(index) {
		s.inbox.bell.Ring()
	}
}

// AppliedIndex is the last index that the handler has reported with Applied.
func (s *Store) AppliedIndex() uint64 { return s.applied.Load() }

// Stop ends everything Start began, closes all files and unlocks the directory. A checkpoint that was not
// Finished durably is given up. What was proposed and not committed may or may not be in the log. The handler
// is not called any more once Stop has returned; Stop may not be called from the handler. Later calls wait
// for the first and return the same.
func (s *Store) Stop() error { return s.ended() }

func (s *Store) end() error {
	if s.started {
		close(s.stop)
		<-s.done
		if s.Space.done != nil {
			<-s.Space.done
		}
		if s.Peers.network != nil {
			s.Peers.unlisten()
			s.Peers.roster.Close()
			s.Peers.out.Close()
		}
		s.appender.close()
		s.keeper.close()
	}
	return s.closeFiles()
}
