package raftstore

import (
	"errors"
	"slices"
	"time"
)

// ErrReserve is returned by Writable when the disk is nearly full.
var ErrReserve = errors.New("the disk is nearly full: no more commands are taken until space is free")

// Writable reports whether commands should be proposed. Below Config.ReserveBytes of free space it returns
// ErrReserve, and the leadership is handed over if another member can take it. What was proposed already,
// checkpoints and cutting the log go on: they are what the reserve is for. It is cheap.
func (s *Store) Writable() error {
	if s.full.Load() {
		return ErrReserve
	}
	return nil
}

// guardSpace looks at the free space from time to time until Stop.
func (s *Store) guardSpace() {
	defer close(s.spaceDone)
	if s.cfg.InMemory || s.cfg.ReserveBytes == 0 {
		return
	}
	pause := time.NewTicker(s.cfg.spacePause)
	defer pause.Stop()
	for {
		s.lookAtSpace()
		select {
		case <-pause.C:
		case <-s.stop:
			return
		}
	}
}

// lookAtSpace compares the free space with the reserve. A quarter more has to be free before writing goes on,
// so that it does not go on and off.
func (s *Store) lookAtSpace() {
	free, err := s.cfg.FreeSpace(s.cfg.Dir)
	if err != nil {
		s.cfg.Logger.Warn("free space is unknown", "dir", s.cfg.Dir, "err", err)
		return
	}
	s.space.Store(free)
	reserve := s.cfg.ReserveBytes
	switch short := s.short.Load(); {
	case !short && free < reserve:
		s.short.Store(true)
		s.cfg.Logger.Error("the disk is nearly full", "dir", s.cfg.Dir, "free_bytes", free, "reserve_bytes",
			reserve)
	case short && free >= reserve+reserve/4:
		s.short.Store(false)
		s.cfg.Logger.Info("the disk has space again", "dir", s.cfg.Dir, "free_bytes", free)
	}
	if short := s.short.Load(); short || s.full.Load() {
		s.inbox.put(func(m *mail) { m.tasks = append(m.tasks, func(l *loop) { l.noteFull(short) }) })
	}
}

// Space returns the free bytes of the disk as they were seen last, and how many of them are reserved. Both
// are 0 if nothing is reserved, or before the first look.
func (s *Store) Space() (free, reserve uint64) { return s.space.Load(), s.cfg.ReserveBytes }

// HandingOver reports whether this member leads and is giving the leadership to another. What is proposed
// meanwhile waits, and is lost if that succeeds.
func (s *Store) HandingOver() bool { return s.moving.Load() }

// noteFull takes note of whether the disk is nearly full. The leadership goes first, so that no command is
// refused while another member could take it.
func (l *loop) noteFull(full bool) {
	if full {
		l.stepAside("the disk is nearly full")
	}
	if l.s.full.Swap(full) != full {
		l.stale = true
		l.s.announce()
	}
}

// isFull reports whether a member has said that its disk is nearly full.
func (l *loop) isFull(id uint64) bool { return l.headers[id].GetFull() }

// holdsBack reports whether this member leaves an election to others: its disk is nearly full, that of
// another voter is not, and there has not been time enough yet for that one to be elected.
func (l *loop) holdsBack() bool {
	if !l.s.full.Load() || l.ticks-l.ledAt > holdBackTicks {
		return false
	}
	return slices.ContainsFunc(l.conf.Voters,
		func(id uint64) bool { return id != l.s.identity.Member && !l.isFull(id) })
}

// stepAside hands the leadership to another member that can be reached, if there is one.
func (l *loop) stepAside(why string) {
	if !l.leading || l.transferring || l.conf.Alone(l.s.identity.Member) {
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
