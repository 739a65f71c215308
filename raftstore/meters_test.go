package raftstore

import (
	"path/filepath"
	"testing"
)

// TestFiguresWaitForNobody reads the figures while the turn and the writer of the log are held.
func TestFiguresWaitForNobody(t *testing.T) {
	s := open(t, smallConfig(filepath.Join(t.TempDir(), "data")))
	m := startByHand(t, s)
	defer m.stop()
	m.loop.turn.Lock()
	defer m.loop.turn.Unlock()
	s.appender.mu.Lock()
	defer s.appender.mu.Unlock()
	if f := s.Figures(); f.Members != 1 || !f.Leading {
		t.Errorf("got %+v", f)
	}
}
