package raftstore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"go.etcd.io/raft/v3"

	"github.com/coordd/coordd/raftstore/membership"
)

// The operator's log of elections, members and connections: one line for each change, with the servers' names. A single
// server logs none of them.

// It logs a change of leader or role; l still has the previous state.
func (l *loop) tellRole(term uint64, leading bool, leader uint64) {
	if l.conf.Alone(l.s.identity.Member) {
		return
	}
	self, log := l.s.identity.Member, l.s.cfg.Logger
	if leading {
		leader = self
	}
	if l.leader != raft.None {
		l.lastLeader = l.leader
	}
	takesOver := []any{"term", term}
	if l.lastLeader != raft.None && l.lastLeader != leader {
		takesOver = append(takesOver, "took over from", l.conf.NameOf(l.lastLeader))
	}
	switch {
	case leading && l.leading && term == l.term:
	case leading:
		log.Info("this server leads the cluster", takesOver...)
	case l.leading && l.s.moving.Load():
		log.Info("this server leads the cluster no more", "term", l.term, "why",
			"it has handed over the leadership", "to", l.conf.NameOf(l.heir))
	case l.leading:
		log.Warn("this server leads the cluster no more", "term", l.term, "why", whyLost(l.term, term, leader))
	case leader == raft.None && l.leader != raft.None && l.heir != raft.None:
		log.Info("the leader hands over", "leader", l.conf.NameOf(l.leader), "term", l.term, "to",
			l.conf.NameOf(l.heir))
	case leader == raft.None && l.leader != raft.None:
		log.Warn("the leader is lost", "leader", l.conf.NameOf(l.leader), "term", l.term, "why",
			whyGone(l.leaderReset, l.term, term))
	}
	if !leading && leader != raft.None && (leader != l.leader || term != l.term) {
		log.Info("another server leads the cluster",
			append([]any{"leader", l.conf.NameOf(leader)}, takesOver...)...)
	}
	l.leaderReset = false
	if leader != raft.None {
		l.heir = raft.None
	}
}

// whyLost is why this member leads no more, if it has not handed over the leadership.
func whyLost(before, term, leader uint64) string {
	switch {
	case leader != raft.None:
		return "another server was elected"
	case term > before:
		return "another server stands for election"
	}
	return "it does not hear from a majority"
}

// whyGone is why this member does not follow its leader any more.
func whyGone(reset bool, before, term uint64) string {
	switch {
	case reset:
		return "its connection was reset"
	case term > before:
		return "there is an election"
	}
	return "it was not heard of"
}

// tellMembers logs a change of the membership.
func tellMembers(log *slog.Logger, last, next membership.Conf) {
	for _, m := range next.Members {
		before := last.Member(m.ID)
		voted, votes := slices.Contains(last.Voters, m.ID), slices.Contains(next.Voters, m.ID)
		switch {
		case before == nil && votes:
			log.Info("a server with a vote is there", "server", m.Name, "id", IDText(m.ID), "address", m.Peer)
		case before == nil:
			log.Info("a server was added, without a vote", "server", m.Name, "id", IDText(m.ID), "address",
				m.Peer)
		case votes && !voted:
			log.Info("a server was given a vote", "server", m.Name, "id", IDText(m.ID))
		case before.Peer != m.Peer:
			log.Info("a server has another address", "server", m.Name, "id", IDText(m.ID), "address", m.Peer,
				"before", before.Peer)
		case *before != m:
			log.Debug("a server has told of itself", "server", m.Name, "clients", m.Client, "version",
				m.Version)
		}
	}
	for _, m := range last.Members {
		if !next.Has(m.ID) {
			log.Info("a server was removed", "server", m.Name, "id", IDText(m.ID))
		}
	}
	if before, now := last.Version(), next.Version(); before != 0 && now > before {
		log.Info("all servers can read commands of a later version", "version", now, "before", before)
	}
}

// raftLogger passes raft's messages on. Its information and warnings are our debugging: what an operator has
// to know of elections and members is logged above.
type raftLogger struct{ out *slog.Logger }

var _ raft.Logger = raftLogger{}

func (l raftLogger) Debug(v ...any)                   { l.print(slog.LevelDebug, v) }
func (l raftLogger) Debugf(format string, v ...any)   { l.printf(slog.LevelDebug, format, v) }
func (l raftLogger) Info(v ...any)                    { l.print(slog.LevelDebug, v) }
func (l raftLogger) Infof(format string, v ...any)    { l.printf(slog.LevelDebug, format, v) }
func (l raftLogger) Warning(v ...any)                 { l.print(slog.LevelDebug, v) }
func (l raftLogger) Warningf(format string, v ...any) { l.printf(slog.LevelDebug, format, v) }
func (l raftLogger) Error(v ...any)                   { l.print(slog.LevelError, v) }
func (l raftLogger) Errorf(format string, v ...any)   { l.printf(slog.LevelError, format, v) }

// Fatal panics like Panic: the program that wired the store decides whether the process ends.
func (l raftLogger) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (l raftLogger) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }

func (l raftLogger) print(level slog.Level, v []any) {
	if l.out.Enabled(context.Background(), level) {
		l.out.Log(context.Background(), level, "raft: "+fmt.Sprint(v...))
	}
}

func (l raftLogger) printf(level slog.Level, format string, v []any) {
	if l.out.Enabled(context.Background(), level) {
		l.out.Log(context.Background(), level, "raft: "+fmt.Sprintf(format, v...))
	}
}
