package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/server/adminpb"
)

func clusterStatusCommand(env *cmdline.Env) *cobra.Command {
	out := new(outputFlag)
	return askCommand(env, &question{use: "status", short: "Show the servers of the cluster, who leads, and who lags",
		about: clusterText, example: "  coordd cluster status\n  coordd cluster status -o json",
		run: func(ctx context.Context, c *caller, _ []string) error {
			now, err := c.clusterStatus(ctx)
			if err != nil {
				return err
			}
			limits, err := limitsLine(ctx, c)
			if err != nil {
				return err
			}
			return out.one(env.Stdout, showStatus(now, limits), func(w io.Writer) { printStatus(w, now, limits) })
		}}, out)
}

// statusShown is a status, as the output has it. Ids are 16 hexadecimal digits.
type statusShown struct {
	Cluster        string `json:"cluster"`
	Server         string `json:"server"` // that was asked
	ServerID       string `json:"server_id"`
	Leader         string `json:"leader"` // id, empty without one
	Term           uint64 `json:"term"`
	Commit         uint64 `json:"commit"`
	Applied        uint64 `json:"applied"`
	CaughtUp       bool   `json:"caught_up"`
	FreeBytes      uint64 `json:"free_bytes"`
	ReserveBytes   uint64 `json:"reserve_bytes"`
	DiskFull       bool   `json:"disk_full"`
	LeaderAnswered bool   `json:"leader_answered"`
	FormatVersion  uint64 `json:"format_version"` // 0 from a server that does not tell
	// what the asked server knows of servers whose states differ
	Diverged string        `json:"diverged,omitempty"`
	Issues   []string      `json:"issues"` // what else the asked server finds wrong
	Limits   *limitsShown  `json:"limits"` // null from a server that does not tell
	Members  []memberShown `json:"members"`
}

// memberShown is one member. Match, Lag and Active mean nothing unless the leader answered.
type memberShown struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	PeerAddress   string `json:"peer_address"`
	ClientAddress string `json:"client_address"`
	Role          string `json:"role"` // leader, voter or learner
	Match         uint64 `json:"match"`
	Lag           uint64 `json:"lag"`
	Active        bool   `json:"active"`
	Connected     bool   `json:"connected"` // to the asked server, or to the leader if that answered
	Version       uint64 `json:"version"`
}

func showStatus(now *adminpb.ClusterStatus, limits *adminpb.LimitsStatus) *statusShown {
	shown := &statusShown{
		Cluster: now.GetCluster(), Server: now.GetServerName(), ServerID: now.GetServerId(),
		Leader: now.GetLeader(),
		Term:   now.GetTerm(), Commit: now.GetCommit(), Applied: now.GetApplied(),
		CaughtUp: now.GetCaughtUp(), FreeBytes: now.GetFreeBytes(), ReserveBytes: now.GetReserveBytes(),
		DiskFull: now.GetDiskFull(), LeaderAnswered: now.GetLeaderAnswered(),
		FormatVersion: now.GetFormatVersion(), Diverged: now.GetDiverged(),
		Issues: append([]string{}, now.GetIssues()...), Members: []memberShown{},
	}
	if limits != nil {
		shown.Limits = showLimits(limits)
	}
	for _, m := range byName(now.GetMembers()) {
		shown.Members = append(shown.Members, memberShown{
			ID: m.GetId(), Name: m.GetName(), PeerAddress: m.GetPeerAddress(),
			ClientAddress: m.GetClientAddress(),
			Role:          roleText(m), Match: m.GetMatch(), Lag: m.GetLag(), Active: m.GetActive(),
			Connected: m.GetConnected(), Version: m.GetVersion(),
		})
	}
	return shown
}

func roleText(m *adminpb.ClusterMember) string {
	switch m.GetRole() {
	case adminpb.ClusterMember_ROLE_LEADER:
		return "leader"
	case adminpb.ClusterMember_ROLE_LEARNER:
		return "learner"
	}
	return "voter"
}

// memberName is what a person calls the member with an id.
func memberName(now *adminpb.ClusterStatus, id string) string {
	for _, m := range now.GetMembers() {
		if m.GetId() == id {
			return cmp.Or(m.GetName(), id)
		}
	}
	return id
}

func printStatus(w io.Writer, now *adminpb.ClusterStatus, limits *adminpb.LimitsStatus) {
	leader := "no leader"
	if now.GetLeader() != "" {
		leader = memberName(now, now.GetLeader()) + " leads"
	}
	_ = cmdline.PrintLine(w, "cluster %s: %s, term %d, entry %d is committed", now.GetCluster(), leader,
		now.GetTerm(), now.GetCommit())
	state := "is not caught up"
	if now.GetCaughtUp() {
		state = "is caught up"
	}
	_ = cmdline.PrintLine(w, "asked %s: %s, entry %d is applied%s", cmp.Or(now.GetServerName(), now.GetServerId()),
		state, now.GetApplied(), diskText(now))
	if !now.GetLeaderAnswered() {
		fmt.Fprintf(w, "%s\n", reachText(now))
	}
	_ = cmdline.PrintLine(w, "%s", formatText(now))
	for _, text := range append([]string{now.GetDiverged()}, now.GetIssues()...) {
		if text != "" {
			_ = cmdline.PrintLine(w, "%s", strings.ToUpper(text[:1])+text[1:])
		}
	}
	if limits != nil {
		fmt.Fprintf(w, "%s%s\n", stateText(limits), memoryText(limits))
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tID\tROLE\tACTIVE\tMATCH\tLAG\tVERSION\tPEER\tCLIENT")
	for _, m := range byName(now.GetMembers()) {
		active, match, lag := "no", "?", "?" // the log of others only the leader knows
		if m.GetConnected() {
			active = "yes"
		}
		if now.GetLeaderAnswered() {
			active, match, lag = "no", fmt.Sprint(m.GetMatch()), fmt.Sprint(m.GetLag())
			if m.GetActive() {
				active = "yes"
			}
		}
		_ = cmdline.PrintRow(table, cmp.Or(m.GetName(), "-"), m.GetId(), roleText(m), active, match, lag,
			fmt.Sprint(m.GetVersion()), cmp.Or(m.GetPeerAddress(), "-"), cmp.Or(m.GetClientAddress(), "-"))
	}
	table.Flush()
}

// byName is the members in the order in which people look for them.
func byName(members []*adminpb.ClusterMember) []*adminpb.ClusterMember {
	return slices.SortedStableFunc(slices.Values(members),
		func(a, b *adminpb.ClusterMember) int { return cmp.Compare(a.GetName(), b.GetName()) })
}

// reachText says what can be known of the others where the leader does not answer.
func reachText(now *adminpb.ClusterStatus) string {
	voters, reached := 0, 0
	for _, m := range now.GetMembers() {
		if m.GetRole() == adminpb.ClusterMember_ROLE_LEARNER {
			continue
		}
		if voters++; m.GetConnected() {
			reached++
		}
	}
	return fmt.Sprintf("the leader does not answer: ACTIVE is whether the asked server is connected; it reaches %d "+
		"of %d with a vote, itself included, %d are needed",
		reached, voters, voters/2+1)
}

// formatText says which version of the format the cluster writes, and which servers a later one waits for.
func formatText(now *adminpb.ClusterStatus) string {
	if now.GetFormatVersion() == 0 {
		return "the asked server does not tell which format version is in use: its program is older than this one"
	}
	newest := now.GetFormatVersion()
	for _, m := range now.GetMembers() {
		newest = max(newest, m.GetVersion())
	}
	text := fmt.Sprintf("format version %d is in use", now.GetFormatVersion())
	if newest == now.GetFormatVersion() {
		return text
	}
	var older []string
	for _, m := range now.GetMembers() {
		if m.GetVersion() < newest {
			older = append(older, cmp.Or(m.GetName(), m.GetId()))
		}
	}
	if len(older) == 0 { // the asked server has not heard of the last one's upgrade yet
		return text
	}
	return fmt.Sprintf("%s; %d comes once these can read it too: %s", text, newest, strings.Join(older, ", "))
}

func diskText(now *adminpb.ClusterStatus) string {
	const mib = 1 << 20
	switch {
	case now.GetFreeBytes() == 0:
		return ""
	case now.GetDiskFull():
		return fmt.Sprintf(", THE DISK IS NEARLY FULL: %d MiB free, %d MiB are the reserve",
			now.GetFreeBytes()/mib, now.GetReserveBytes()/mib)
	}
	return fmt.Sprintf(", %d MiB free on its disk", now.GetFreeBytes()/mib)
}
