package raftstore

import (
	"errors"
	"time"
)

// ErrReserve is returned by Writable when the disk is nearly full.
var ErrReserve = errors.New("the disk is nearly full: no more commands are taken until space is free")

// Writable tells whether commands should be proposed. Below Config.ReserveBytes of free space it returns ErrReserve,
// and the leadership is handed over if another member can take it. What was proposed already, checkpoints and cutting
// the log go on: they are what the reserve is for. It is cheap.
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

// lookAtSpace compares the free space with the reserve. A quarter more has to be free before writing goes on, so that
// it does not go on and off.
func (s *Store) lookAtSpace() {
	free, err := s.cfg.free(s.cfg.Dir)
	if err != nil {
		s.cfg.Logger.Warn("free space is unknown", "dir", s.cfg.Dir, "err", err)
		return
	}
	reserve := s.cfg.ReserveBytes
	switch full := s.full.Load(); {
	case !full && free < reserve:
		s.full.Store(true)
		s.cfg.Logger.Error("the disk is nearly full", "dir", s.cfg.Dir, "free", free, "reserve", reserve)
	case full && free >= reserve+reserve/4:
		s.full.Store(false)
		s.cfg.Logger.Info("the disk has space again", "dir", s.cfg.Dir, "free", free)
	}
	if s.full.Load() {
		s.inbox.put(func(m *mail) { m.tasks = append(m.tasks, func(l *loop) { l.stepAside("the disk is nearly full") }) })
	}
}

// stepAside hands the leadership to another member that can be reached, if there is one.
func (l *loop) stepAside(why string) {
	if !l.leading || l.transferring || l.conf.alone(l.s.identity.Member) {
		return
	}
	if err := l.transfer(0); err != nil {
		l.s.cfg.Logger.Warn("cannot hand over the leadership", "why", why, "err", err)
		return
	}
	l.s.cfg.Logger.Warn("handing over the leadership", "why", why)
}
