package datadir

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/coordd/coordd/raftstore/membership"
)

// This file reads from a stopped member's directory who belongs to its cluster.

// readConfs sets confs: the membership of the checkpoint, the one after the last entry that is known to be
// committed, the one after the last entry of the log, and, if it is later, the one that was learnt from other
// members. A server that is started on the directory goes by the second until others confirm a later one.
func (img *Image) readConfs(d *Disk, dir string) (err error) {
	if img.Learnt, err = readLearnt(d, dir, img.Identity); err != nil {
		return err
	}
	c := img.Meta
	known := KnownCommitted(max(img.Hard.Commit, c.Index), img.Entries)
	at := 0
	for at < len(img.Entries) && img.Entries[at].GetIndex() <= known {
		at++
	}
	committed, err := c.Conf.Replay(img.Entries[:at], c.Forced)
	if err != nil {
		return corrupt(filepath.Join(dir, LogDir), 0, "membership entry: %v", err)
	}
	last, err := committed.Replay(img.Entries[at:], c.Forced)
	if err != nil {
		return corrupt(filepath.Join(dir, LogDir), 0, "membership entry: %v", err)
	}
	img.confs = []membership.Conf{c.Conf, committed, last}
	if img.Learnt.Lineage == c.Lineage && img.Learnt.Conf.Index > last.Index {
		img.confs = append(img.confs, img.Learnt.Conf)
	}
	return nil
}

// roster lists the present members and the removed ones, ascending by id. A member counts as present as long
// as its removal is not known to be committed.
func (img *Image) roster() (present, removed membership.Members) {
	var ids []uint64
	for _, c := range img.confs {
		ids = slices.Concat(ids, c.Voters, c.Learners, c.VotersOutgoing, c.Removed)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		m := membership.Member{ID: id, Learner: true}
		if r := img.record(id); r != nil {
			m.Name, m.PeerAddress, m.ClientAddress, m.Version = r.Name, r.Peer, r.Client, r.Version
		}
		isMember := false
		for _, c := range img.confs[1:] {
			isMember = isMember || c.Has(id)
			m.Learner = m.Learner && !slices.Contains(c.Voters, id)
		}
		if isMember {
			present = append(present, m)
		} else {
			m.Learner = false
			removed = append(removed, m)
		}
	}
	return present, removed
}

// record returns the latest record of a member, or nil.
func (img *Image) record(id uint64) *membership.Record {
	for _, c := range slices.Backward(img.confs) {
		if m := c.Member(id); m != nil {
			return m
		}
	}
	return nil
}

// line lists a member for a person.
func line(m membership.Member) string {
	text := fmt.Sprintf("%s %s %s", membership.IDText(m.ID), listed(m.Name), listed(m.PeerAddress))
	if m.Learner {
		text += " (learner)"
	}
	return text + "\n"
}

// listed quotes a text that would break a line.
func listed(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }) {
		return strconv.Quote(text)
	}
	return cmp.Or(text, "-")
}

// KnownCommitted returns the last entry that is known to be committed. stored is the commit index on disk,
// entries are those after the checkpoint.
func KnownCommitted(stored uint64, entries []*pb.Entry) uint64 {
	last, before := uint64(0), uint64(0)
	for _, e := range entries {
		if e.GetType() != pb.EntryNormal {
			last, before = e.GetIndex(), last
		}
	}
	return max(stored, before)
}

// Members returns the latest membership of the directory.
func (img *Image) Members() membership.Conf { return img.confs[len(img.confs)-1] }
