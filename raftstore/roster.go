package raftstore

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/coordd/coordd/raftstore/membership"
)

// This file reads from a stopped member's directory who belongs to its cluster.

// readConfs sets confs: the membership of the checkpoint, the one after the last entry that is known to be
// committed, the one after the last entry of the log, and, if it is later, the one that was learnt from other
// members. A server that is started on the directory goes by the second until others confirm a later one.
func (img *image) readConfs(dir string) (err error) {
	if img.learnt, err = readLearnt(dir, img.identity); err != nil {
		return err
	}
	c := img.state.meta
	known := knownCommitted(max(img.hard.commit, c.Index), img.entries)
	at := 0
	for at < len(img.entries) && img.entries[at].GetIndex() <= known {
		at++
	}
	committed, err := c.Conf.Replay(img.entries[:at], c.Forced)
	if err != nil {
		return corrupt(filepath.Join(dir, walDir), 0, "membership entry: %v", err)
	}
	last, err := committed.Replay(img.entries[at:], c.Forced)
	if err != nil {
		return corrupt(filepath.Join(dir, walDir), 0, "membership entry: %v", err)
	}
	img.confs = []membership.Conf{c.Conf, committed, last}
	if img.learnt.Lineage == c.Lineage && img.learnt.Conf.Index > last.Index {
		img.confs = append(img.confs, img.learnt.Conf)
	}
	return nil
}

// roster lists the present members and the removed ones, ascending by id. A member counts as present as long
// as its removal is not known to be committed.
func (img *image) roster() (present, removed Members) {
	var ids []uint64
	for _, c := range img.confs {
		ids = slices.Concat(ids, c.Voters, c.Learners, c.VotersOutgoing, c.Removed)
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		m := Member{ID: id, Learner: true}
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

// record returns the latest record of a member, nil if the directory has none.
func (img *image) record(id uint64) *membership.Record {
	for _, c := range slices.Backward(img.confs) {
		if m := c.Member(id); m != nil {
			return m
		}
	}
	return nil
}

// line lists a member for a person.
func (m Member) line() string {
	text := fmt.Sprintf("%s %s %s", IDText(m.ID), listed(m.Name), listed(m.PeerAddress))
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
