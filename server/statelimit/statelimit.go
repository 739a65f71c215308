// Package statelimit sets the first limit of the state of a cluster, and warns where the state may become too large.
package statelimit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
	"github.com/coordd/coordd/server/calls"
)

const (
	// Unlimited disables the limit.
	Unlimited = math.MaxUint64
	// Min is the least state limit that an operator may set: with less nothing can be done at all.
	Min = 1 << 20
	// memoryPerByte is the factor from the size of the state to the memory that a server may take: the garbage
	// collector lets the heap grow to twice what is in use.
	memoryPerByte = 2
	// roomPerByte is the factor from the present size to the limit of an existing cluster, where the default is less.
	roomPerByte = 2
	// nearlyFullPercent is the part of the limit whose use raises an issue.
	nearlyFullPercent = 90
)

// Limit sets and logs the limit of the state. The limit itself is part of the replicated state: the one that a
// server was started with counts only where the cluster has no limit yet.
type Limit struct {
	*calls.Runner
	Logger *slog.Logger
	// Configured are the limits that the server was started with.
	Configured coordination.Limits
	Memory     Memory
	logged     atomic.Uint64 // the limit that was logged last
	refused    atomic.Bool   // the first proposal was, and that was logged
}

// firstLimits returns the limits that a server sets in a cluster without limits, of which so much is used. A cluster
// that was there before its limit must not come to a halt with it, unless that was asked for.
func firstLimits(configured coordination.Limits, used uint64) coordination.StateLimits {
	limits := configured.Proposed()
	if limits.State == 0 {
		limits.State = max(coordination.DefaultStateBytes, roomPerByte*used)
		limits.Reserve = coordination.ReserveOf(limits.State)
	}
	limits.Links = cmp.Or(limits.Links, coordination.MaxLinks)
	return limits
}

// SetFirst gives a cluster the limits that it has not, if this server leads. They are set once, by
// whichever server comes first: no server replaces what another one, or an operator, has set, so servers that
// were started with different limits cannot take turns. Before every server of the cluster can read such a
// command nothing happens.
func (l *Limit) SetFirst(ctx context.Context) {
	used, now := l.Group.StateSize()
	if !l.Group.Leads() {
		return
	}
	limits := firstLimits(l.Configured, used)
	switch readable := l.Group.FormatVersion() >= codec.VersionQuotas; {
	case now == coordination.StateLimits{}:
		if !readable {
			limits.Reserve, limits.Links = 0, 0
		}
	case !readable:
		return
	case now.State != 0 && now.Reserve == 0: // set by servers of an older version
		limits = coordination.StateLimits{Reserve: coordination.ReserveOf(now.State)}
	case now.Links == 0:
		limits = coordination.StateLimits{Links: limits.Links}
	default:
		return
	}
	ctx, cancel := context.WithTimeout(ctx, calls.Patience)
	defer cancel()
	answer, err := l.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.SetLimits{CallID: call, Limits: limits,
			OnlyFirst: limits.State != 0 || limits.Links != 0}
	})
	if err == nil && !answer.OK() && len(answer.Issues) > 0 && !l.refused.Swap(true) {
		l.Logger.Info("the limit of the state is not set yet", "reason", answer.Issues[0].Message)
	}
}

// Log logs the limit when it is known and when it has changed, and what an operator should know of
// it.
func (l *Limit) Log() {
	used, now := l.Group.StateSize()
	if now.State == 0 || l.logged.Swap(now.State) == now.State {
		return
	}
	logger, own := l.Logger, l.Configured.State
	logger.Info("limit of the state", "limit", Text(now.State), "used", SizeText(used))
	if own != 0 && own != now.State {
		logger.Warn(
			"this server was started with another --state-limit than the cluster has; the cluster's counts, "+
				"and `coordd cluster limits --state` changes it", "cluster", Text(now.State),
			"this_server", Text(own))
	}
	if text := l.MemoryIssue(); text != "" {
		logger.Warn(text)
	}
}

// MemoryIssue returns a warning if this server may run out of memory before the state reaches its limit, or "".
func (l *Limit) MemoryIssue() string {
	memory, limit := l.Memory, l.Now()
	if limit == 0 || memory.Bytes == 0 || limit <= memory.Bytes/memoryPerByte {
		return ""
	}
	return fmt.Sprintf("the state may take more memory than this server has: its limit is %s, twice that may be needed, and there are %s (%s)",
		Text(limit), SizeText(memory.Bytes), memory.Source)
}

// FullnessIssue returns a warning if the state is nearly as large as it may be, or "".
func (l *Limit) FullnessIssue() string {
	used, now := l.Group.StateSize()
	if now.State == 0 || used < now.State/100*nearlyFullPercent {
		return ""
	}
	return fmt.Sprintf("the state is nearly full: %s of %s are used, and beyond that nothing new is accepted",
		SizeText(used), Text(now.State))
}

// Now returns the limit, 0 if it is not known.
func (l *Limit) Now() uint64 {
	_, now := l.Group.StateSize()
	return now.State
}

// Text returns a limit for people.
func Text(bytes uint64) string {
	if bytes == Unlimited {
		return "unlimited"
	}
	return SizeText(bytes)
}

// SizeText is a number of bytes for people.
func SizeText(bytes uint64) string {
	switch {
	case bytes >= 10<<30:
		return fmt.Sprintf("%d GiB", bytes>>30)
	case bytes >= 10<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 10<<10:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d bytes", bytes)
}
