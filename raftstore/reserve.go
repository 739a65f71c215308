package raftstore

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// ErrReserve is returned by Writable when the disk is nearly full.
var ErrReserve = errors.New("the disk is nearly full: no more commands are taken until space is free")

// Space watches the free space of the disk.
type Space struct {
	cfg   *Config
	note  func(short bool) // has a turn deal with it
	free  atomic.Uint64
	short atomic.Bool // the disk is nearly full
	full  atomic.Bool // the same, once a turn has dealt with it
	done  chan struct{}
}

// Writable reports whether commands should be proposed. Below Config.ReserveBytes of free space it returns
// ErrReserve, and the leadership is handed over if another member can take it. Proposals under way, checkpoints and log
// truncation go on: the reserve is for them. It is cheap.
func (p *Space) Writable() error {
	if p.full.Load() {
		return ErrReserve
	}
	return nil
}

// Free returns the free bytes of the disk as they were seen last, and how many of them are reserved. Both
// are 0 if nothing is reserved, or before the first look.
func (p *Space) Free() (free, reserve uint64) { return p.free.Load(), p.cfg.ReserveBytes }

// run looks at the free space from time to time until stop.
func (p *Space) run(stop <-chan struct{}) {
	defer close(p.done)
	if p.cfg.InMemory || p.cfg.ReserveBytes == 0 {
		return
	}
	pause := time.NewTicker(p.cfg.spacePause)
	defer pause.Stop()
	for {
		p.look()
		select {
		case <-pause.C:
		case <-stop:
			return
		}
	}
}

// look compares the free space with the reserve. A quarter more has to be free before writing goes on,
// so that it does not go on and off.
func (p *Space) look() {
	free, err := p.cfg.FreeSpace(p.cfg.Dir)
	if err != nil {
		p.cfg.Logger.Warn("free space is unknown", "dir", p.cfg.Dir, "err", err)
		return
	}
	p.free.Store(free)
	reserve := p.cfg.ReserveBytes
	switch short := p.short.Load(); {
	case !short && free < reserve:
		p.short.Store(true)
		p.cfg.Logger.Error("the disk is nearly full", "dir", p.cfg.Dir, "free_bytes", free, "reserve_bytes",
			reserve)
	case short && free >= reserve+reserve/4:
		p.short.Store(false)
		p.cfg.Logger.Info("the disk has space again", "dir", p.cfg.Dir, "free_bytes", free)
	}
	if short := p.short.Load(); short || p.full.Load() {
		p.note(short)
	}
}

// HandingOver reports whether this member leads and is giving the leadership to another. What is proposed
// meanwhile waits, and is lost if that succeeds.
func (s *Store) HandingOver() bool { return s.moving.Load() }

// noteFull takes note of whether the disk is nearly full. The leadership goes first, so that no command is
// refused while another member could take it.
func (l *loop) noteFull(full bool) {
	if full {
		l.stepAside("the disk is nearly full")
	}
	if l.s.Space.full.Swap(full) != full {
		l.stale = true
		l.s.Peers.announce()
	}
}

// holdsBack reports whether this member leaves an election to others: its disk is nearly full, that of
// another voter is not, and there has not been time enough yet for that one to be elected.
func (l *loop) holdsBack() bool {
	if !l.s.Space.full.Load() || l.ticks-l.ledAt > holdBackTicks {
		return false
	}
	return slices.ContainsFunc(l.conf.Voters,
		func(id uint64) bool { return id != l.s.identity.Member && !l.headers[id].GetFull() })
}

// stepAside hands the leadership to another member that can be reached, if there is one.
func (l *loop) stepAside(why string) {
	if !l.leading || l.s.moving.Load() || l.conf.Alone(l.s.identity.Member) {
		return
	}
	err := l.transfer(0)
	if err == nil {
		l.s.cfg.Logger.Warn("handing over the leadership", "why", why)
	} else if !l.stuck { // said once, and tried again and again
		l.s.cfg.Logger.Warn("cannot hand over the leadership", "why", why, "err", err)
	}
	l.stuck = err != nil
}
