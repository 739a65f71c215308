package raftstore

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

// memoryLog is a logDevice without a disk: the tail holds all entries, so there is nothing to do.
type memoryLog struct{}

func (memoryLog) append([]*pb.Entry) error     { return nil }
func (memoryLog) setHardState(hardState) error { return nil }
func (memoryLog) cut(uint64) error             { return nil }
func (memoryLog) reset(uint64) error           { return nil }
func (memoryLog) close() error                 { return nil }

func (memoryLog) read(lo, hi, _ uint64) ([]*pb.Entry, error) {
	return nil, fmt.Errorf("entries %d to %d are not in memory", lo, hi-1)
}

// memoryRows takes checkpoints and forgets them.
type memoryRows struct{ finished bool }

func (*memoryRows) rows(func(key, value []byte) error) error { return nil }
func (*memoryRows) put([]Row)                                {}
func (*memoryRows) drop([]byte)                              {}
func (m *memoryRows) finish(checkpointMark)                  { m.finished = true }
func (m *memoryRows) busy() bool                             { return m.finished }
func (m *memoryRows) step() (durable bool, err error)        { m.finished = false; return true, nil }
func (*memoryRows) sweep(int) (bool, error)                  { return false, nil }
func (*memoryRows) pin() (*pinned, error)                    { return nil, nil }
func (*memoryRows) replace(*received) error                  { return nil }
func (*memoryRows) opened() <-chan struct{}                  { return alwaysOpen }
func (*memoryRows) close() error                             { return nil }

var alwaysOpen = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
