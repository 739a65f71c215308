package history

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coordd/coordd/raftstore/files"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group/events"
)

const (
	// Dir is the directory of the files within a data directory.
	Dir = "events"

	writePeriod = time.Second
	syncPeriod  = 30 * time.Second
	retryPeriod = 30 * time.Second
	// maxInMemory bounds the events of a class that a server without a disk keeps.
	maxInMemory = 1024
)

// Config has the parameters of a history.
type Config struct {
	FS     files.FS // nil: it is kept in memory
	Dir    string   // its parent exists
	Server uint64
	Logger *slog.Logger
	// Take returns the events since its last call, and how many were lost (events.Ring.Take).
	Take func(all bool) ([]events.Rare, uint64)
	// Base returns the index of the state with which this server began. A history without files lacks everything up to
	// there: the state was restored from a backup, say.
	Base func() uint64
	// Received returns the last entry that had come as a part of another server's state when this server began, 0 for
	// none. If the server ended before it wrote that gap, the files lack what is after their newest event.
	Received func() uint64
	// Name returns the name of a server.
	Name func(uint64) string
	// Space returns an error while the disk is too full to write.
	Space func() error
}

// History keeps the events of one server.
type History struct {
	config  Config
	lost    atomic.Uint64
	hidden  atomic.Uint64    // events of this index and later ones are being written; 0: none are
	version atomic.Uint64    // counts batches, with those that could not be written
	written atomic.Uint64    // no event of a batch that was written since the start has a larger index; 0: no batch was
	reading [2]chan struct{} // one scan at a time for administrators, and one for all others
	stop    chan struct{}
	ended   chan struct{}

	// Of the goroutine, but for memory, which has a mutex.
	opened   bool
	retry    time.Time // after an error; zero: the last write was good
	classes  [events.Classes]writer
	unsynced bool
	synced   time.Time
	full     bool           // the disk is, and that has been logged
	missing  *adminpb.Event // the GAP of what was not kept since the last write; nil: nothing
	mutex    sync.Mutex
	memory   [events.Classes][]*adminpb.Event
}

// writer is the newest segment of a class.
type writer struct {
	class    events.Class
	file     files.File // nil until there is something to write
	sequence uint64     // 0: the class has no segment
	length   int64
}

// New returns a history that keeps nothing until it is started.
func New(config Config) *History {
	h := &History{config: config, stop: make(chan struct{}), ended: make(chan struct{}),
		reading: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}}
	for class := range events.Classes {
		h.classes[class].class = class
	}
	return h
}

// Start takes events from now on.
func (h *History) Start() { go h.run() }

// Stop writes what there is, and ends. It is called once, after Start.
func (h *History) Stop() {
	close(h.stop)
	<-h.ended
}

// Lost returns how many events could not be kept.
func (h *History) Lost() uint64 { return h.lost.Load() }

// Version changes whenever Read may return other events than before. A version from before a Read is that of its events
// or an older one.
func (h *History) Version() uint64 { return h.version.Load() }

func (h *History) run() {
	defer close(h.ended)
	ticker := time.NewTicker(writePeriod)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			h.step(now, false)
		case <-h.stop:
			h.step(time.Now(), true)
			h.close()
			return
		}
	}
}

// step keeps what has happened since the last one, or all that has happened.
func (h *History) step(now time.Time, all bool) {
	taken, lost := h.config.Take(all)
	h.lost.Add(lost)
	if len(taken) > 0 {
		h.keep(now, taken, lost > 0)
		report(h.config.Logger, taken)
	}
	if h.unsynced && now.Sub(h.synced) >= syncPeriod {
		h.synced = now
		h.failed(now, h.sync())
	}
}

// keep writes a batch; holed reports that events among it are lost.
func (h *History) keep(now time.Time, taken []events.Rare, holed bool) {
	oldest, newest, all := ^uint64(0), h.written.Load(), uint64(0)
	var batch [events.Classes][]*adminpb.Event
	gap := &adminpb.Event{Kind: adminpb.Event_GAP}
	for i := range taken {
		e := keptOf(&taken[i], h.config.Name)
		oldest, newest = min(oldest, e.GetIndex()), max(newest, e.GetIndex())
		gap.LastIndex = max(gap.GetLastIndex(), e.GetIndex(), e.GetLastIndex())
		gap.TimeMillis = max(gap.GetTimeMillis(), e.GetTimeMillis())
		all += 1 + e.GetSkipped()
		batch[taken[i].Class] = append(batch[taken[i].Class], e)
	}
	if gap.Index = oldest; h.missing != nil {
		gap.Index = min(oldest, h.missing.GetIndex())
	}
	if holed {
		h.missing = gap
	}
	h.hidden.Store(max(1, oldest))
	defer func() {
		h.written.Store(newest)
		h.hidden.Store(0)
		h.version.Add(1)
	}()
	switch {
	case h.config.FS == nil:
		h.remember(&batch)
	case now.Before(h.retry) || h.isFull():
		h.lost.Add(all)
		h.missing = gap
	default:
		if h.missing != nil {
			batch[events.Audit] = append(batch[events.Audit], h.missing)
		}
		if err := h.write(&batch, gap.GetTimeMillis()); err != nil {
			h.lost.Add(all)
			h.missing = gap
			h.failed(now, err)
			return
		}
		h.missing = nil
		if !h.retry.IsZero() {
			h.config.Logger.Info("events are written again", "lost", h.lost.Load())
			h.retry = time.Time{}
		}
	}
}

// remember keeps a batch in memory.
func (h *History) remember(batch *[events.Classes][]*adminpb.Event) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for class, list := range batch {
		all := append(h.memory[class], list...)
		h.memory[class] = slices.Clone(all[max(0, len(all)-maxInMemory):])
	}
}

// isFull reports whether the disk has no room, and logs when that begins.
func (h *History) isFull() bool {
	err := h.config.Space()
	if err != nil && !h.full {
		h.config.Logger.Warn("the disk is nearly full: events are not kept until there is room", "error", err)
	}
	h.full = err != nil
	return h.full
}

// failed stops the writing for a while after an error. What the files have then is found as after a start.
func (h *History) failed(now time.Time, err error) {
	if err == nil {
		return
	}
	if h.retry.IsZero() {
		h.config.Logger.Error("events cannot be written: none are kept until they can", "tried_again_each", retryPeriod,
			"error", err)
	}
	h.opened, h.unsynced, h.retry = false, false, now.Add(retryPeriod)
	for class := range h.classes {
		w := &h.classes[class]
		if w.file != nil {
			_ = w.file.Close()
		}
		*w = writer{class: w.class}
	}
}

// open makes the directory, or finds the newest segments.
func (h *History) open() error {
	names, err := h.config.FS.List(h.config.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = h.config.FS.MakeDir(h.config.Dir)
		return errors.Join(err, h.config.FS.SyncDir(filepath.Dir(h.config.Dir)))
	}
	for _, name := range names {
		if class, sequence, is := parseName(name); is {
			h.classes[class].sequence = max(h.classes[class].sequence, sequence)
		}
	}
	return err
}

// isNew reports whether there are no files.
func (h *History) isNew() bool {
	return !slices.ContainsFunc(h.classes[:], func(w writer) bool { return w.sequence > 0 })
}

// lacking returns the entries of the log that came as a state, and of which the files have no gap; from > to: none.
func (h *History) lacking() (from, to uint64) {
	if from, to = 1, h.config.Received(); h.isNew() {
		return from, h.config.Base()
	}
	for i := range h.classes {
		w := &h.classes[i]
		if to == 0 || w.sequence == 0 {
			continue
		}
		content, err := files.Read(h.config.FS, filepath.Join(h.config.Dir, segmentName(w.class, w.sequence)))
		if err != nil { // it may have the gap
			return 1, 0
		}
		scan(content, w.class, w.sequence, func(e *adminpb.Event) {
			from = max(from, e.GetIndex()+1, e.GetLastIndex()+1)
		})
	}
	return from, to
}

// write writes a batch, of which the last event has that time.
func (h *History) write(batch *[events.Classes][]*adminpb.Event, now uint64) error {
	if !h.opened {
		if err := h.open(); err != nil {
			return err
		}
		h.opened = true
		if from, to := h.lacking(); from <= to {
			batch[events.Audit] = append(batch[events.Audit], &adminpb.Event{Kind: adminpb.Event_GAP, Index: from,
				LastIndex: to, TimeMillis: now})
		}
	}
	for class, list := range batch {
		w := &h.classes[class]
		for len(list) > 0 {
			if err := h.prepare(w); err != nil {
				return err
			}
			var content []byte
			for len(list) > 0 {
				longer := appendRecord(content, w.sequence, list[0])
				if w.length+int64(len(longer)) > segmentBytes {
					break
				}
				if len(longer) == len(content) { // it is too large
					h.lost.Add(1 + list[0].GetSkipped())
				}
				content, list = longer, list[1:]
			}
			if len(content) > 0 {
				if err := files.WriteAll(w.file, content, w.length); err != nil {
					return err
				}
				w.length += int64(len(content))
				h.unsynced = true
			}
			if len(list) > 0 {
				if err := h.next(w); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// prepare makes the newest segment of a class one that can be written.
func (h *History) prepare(w *writer) error {
	switch {
	case w.file != nil:
		return nil
	case w.sequence == 0:
		return h.next(w)
	}
	path := filepath.Join(h.config.Dir, segmentName(w.class, w.sequence))
	content, err := files.Read(h.config.FS, path)
	if err != nil {
		return err
	}
	length := scan(content, w.class, w.sequence, func(*adminpb.Event) {})
	if length == 0 { // an attempt to begin it has failed: another number each time would cost an old file each
		w.sequence--
		return h.next(w)
	}
	if err := h.create(w, path+files.Suffix, content[:length]); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	return errors.Join(h.config.FS.Rename(path+files.Suffix, path), h.config.FS.SyncDir(h.config.Dir))
}

// next begins the next segment of a class, and removes the oldest if the class has enough.
func (h *History) next(w *writer) error {
	if w.file != nil {
		if err := errors.Join(w.file.Sync(), w.file.Close()); err != nil {
			return err
		}
		w.file = nil
	}
	w.sequence++
	if most := uint64(events.ClassBytes[w.class] / segmentBytes); w.sequence > most {
		names, err := h.config.FS.List(h.config.Dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			if class, sequence, is := parseName(name); is && class == w.class && sequence <= w.sequence-most {
				if err := h.config.FS.Remove(filepath.Join(h.config.Dir, name)); err != nil {
					return err
				}
			}
		}
	}
	return h.create(w, filepath.Join(h.config.Dir, segmentName(w.class, w.sequence)),
		appendHeader(nil, h.config.Server, w.class, w.sequence))
}

// create makes a file with the beginning of a segment. One of the name is left by a crash.
func (h *History) create(w *writer, path string, content []byte) error {
	if err := files.Remove(h.config.FS, path); err != nil {
		return err
	}
	file, err := h.config.FS.Create(path)
	if err != nil {
		return err
	}
	w.file, w.length = file, int64(len(content))
	if err := file.Allocate(segmentBytes); err != nil {
		return err
	}
	return files.WriteAll(file, content, 0)
}

// sync makes durable what is written.
func (h *History) sync() error {
	for i := range h.classes {
		if f := h.classes[i].file; f != nil {
			if err := f.Sync(); err != nil {
				return err
			}
		}
	}
	h.unsynced = false
	return h.config.FS.SyncDir(h.config.Dir)
}

func (h *History) close() {
	if h.unsynced {
		h.failed(time.Now(), h.sync())
	}
	for i := range h.classes {
		if f := h.classes[i].file; f != nil {
			_ = f.Close()
		}
	}
}
