package monitor

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/internal/budget"
	"github.com/coordd/coordd/internal/histogram"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/group/events"
)

// shown is all that a scrape reads.
type shown struct {
	server.Figures
	certificates map[string]time.Time
	started      time.Time // of the metrics, with the server
}

// metric is one of the metrics: what it is called and how it is read off a server's figures.
type metric struct {
	name   string
	kind   string // gauge, counter or histogram
	labels []string
	help   string
	// read emits the values of a gauge or a counter, and readings those of a histogram.
	read     func(f *shown, emit func(value float64, labels ...string))
	readings func(f *shown, emit func(r histogram.Reading, labels ...string))
}

const (
	gauge         = "gauge"
	counter       = "counter"
	histogramKind = "histogram"
)

// number reads one value without labels.
func number[N int | int64 | uint64 | float64](
	of func(f *shown) N,
) func(*shown, func(float64, ...string)) {
	return func(f *shown, emit func(float64, ...string)) { emit(float64(of(f))) }
}

// truth reads a yes or no.
func truth(of func(f *shown) bool) func(*shown, func(float64, ...string)) {
	return func(f *shown, emit func(float64, ...string)) { emit(bit(of(f))) }
}

func bit(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// each reads a value for each key of a map.
func each(of func(f *shown) map[string]uint64) func(*shown, func(float64, ...string)) {
	return func(f *shown, emit func(float64, ...string)) {
		values := of(f)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			emit(float64(values[key]), key)
		}
	}
}

// ofEnds reads a value for each reason.
func ofEnds(of func(*events.Ends) []uint64) func(*shown, func(float64, ...string)) {
	return func(f *shown, emit func(float64, ...string)) {
		for why, n := range of(&f.Group.Ends) {
			emit(float64(n), events.EndReason(why).String())
		}
	}
}

// ofBudgets reads a value of each budget.
func ofBudgets(of func(*budget.Budget) int) func(*shown, func(float64, ...string)) {
	return func(f *shown, emit func(float64, ...string)) {
		for _, b := range f.Budgets {
			emit(float64(of(b)), b.Name())
		}
	}
}

// ofResources reads values of each resource that is to be shown by itself.
func ofResources(
	of func(r *server.ResourceFigures, emit func(float64, ...string)),
) func(*shown, func(float64, ...string)) {
	return func(f *shown, emit func(float64, ...string)) {
		for i := range f.Resources {
			of(&f.Resources[i], emit)
		}
	}
}

var lockLabels = []string{"node", "semaphore"}

// ofLocks reads a value of each semaphore that is to be shown by itself, where it has one.
func ofLocks(of func(*server.SemaphoreFigures) (value float64, known bool)) func(*shown, func(float64, ...string)) {
	return func(f *shown, emit func(float64, ...string)) {
		for i := range f.Semaphores {
			if value, known := of(&f.Semaphores[i]); known {
				emit(value, f.Semaphores[i].Node, f.Semaphores[i].Semaphore)
			}
		}
	}
}

// seconds is a time as Prometheus has it, 0 for the zero time.
func seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixNano()) / float64(time.Second)
}

// metrics lists all metrics besides the library's own about the process and Go.
var metrics = []metric{
	// How it stands.
	{name: "coordd_ready", kind: gauge,
		help: "1 while the server can serve clients, by its health check",
		read: truth(func(f *shown) bool { return f.Readiness.Ready })},
	{name: "coordd_issue", kind: gauge, labels: []string{"kind"},
		help: "1 while the server knows of an issue of the kind; /readyz and `coordd health` have the description",
		read: func(f *shown, emit func(float64, ...string)) {
			for _, kind := range slices.Sorted(maps.Keys(f.Issues)) {
				emit(bit(f.Issues[kind]), kind)
			}
		}},
	{name: "coordd_panics_total", kind: counter, help: "panics that were recovered from; each is in the log",
		read: number(func(f *shown) uint64 { return f.Panics })},

	// Requests.
	{name: "coordd_requests_total", kind: counter, labels: []string{"method", "status"},
		help: "calls that are over, by method (`unknown`: not served here) and YDB's status, or gRPC's where the " +
			"answer has none; a stream counts with how its handler ended",
		read: func(f *shown, emit func(float64, ...string)) {
			for _, method := range f.MethodNames() {
				results := f.Methods[method].Results
				for _, status := range slices.Sorted(maps.Keys(results)) {
					emit(float64(results[status]), method, status)
				}
			}
		}},
	{name: "coordd_request_duration_seconds", kind: histogramKind, labels: []string{"method"},
		help: "time that calls with one request took, by method; methods that were not called are left out",
		readings: func(f *shown, emit func(histogram.Reading, ...string)) {
			for _, method := range f.MethodNames() {
				if latency := f.Methods[method].Latency; latency.Count > 0 {
					emit(latency, method)
				}
			}
		}},
	{name: "coordd_session_requests_total", kind: counter, labels: []string{"kind", "status"},
		help: "requests on Session streams that were answered, by kind and YDB's status",
		read: func(f *shown, emit func(float64, ...string)) {
			for _, kind := range slices.Sorted(maps.Keys(f.Requests)) {
				for _, status := range slices.Sorted(maps.Keys(f.Requests[kind])) {
					emit(float64(f.Requests[kind][status]), kind, status)
				}
			}
		}},
	{name: "coordd_session_failures_total", kind: counter, labels: []string{"status"},
		help: "Session streams that were ended with a Failure, a refused start included, by YDB's status",
		read: each(func(f *shown) map[string]uint64 { return f.Failures })},
	{name: "coordd_sessions_ended_total", kind: counter, labels: []string{"why"},
		help: "sessions that ended while this server led, by reason: `expired`, `stopped` by their clients, " +
			"`killed` by an administrator, or `dropped` with their node",
		read: ofEnds(func(e *events.Ends) []uint64 { return e.Sessions[:events.Deleted] })},
	{name: "coordd_locks_lost_total", kind: counter, labels: []string{"why"},
		help: "times that a session lost a semaphore that it owned and had not released while this server led, by " +
			"the end of the session, or `deleted` with the semaphore",
		read: ofEnds(func(e *events.Ends) []uint64 { return e.Locks[:] })},
	{name: "coordd_events_lost_total", kind: counter,
		help: "events that `coordd events` does not have: too many at once, or a full or broken disk",
		read: number(func(f *shown) uint64 { return f.EventsLost })},
	{name: "coordd_session_changes_total", kind: counter,
		help: "changes of watched semaphores that clients were notified of",
		read: number(func(f *shown) uint64 { return f.Changes })},
	{name: "coordd_acquire_wait_seconds", kind: histogramKind, labels: []string{"queued"},
		help: "time from an acquire's arrival to its grant; queued is true if it had to wait",
		readings: func(f *shown, emit func(histogram.Reading, ...string)) {
			emit(f.Granted, "false")
			emit(f.Queued, "true")
		}},
	{name: "coordd_rejected_logins_total", kind: counter, labels: []string{"reason"},
		help: "logins and tokens that were refused, by reason",
		read: each(func(f *shown) map[string]uint64 { return f.Rejected })},

	// State.
	{name: "coordd_nodes", kind: gauge, help: "coordination nodes",
		read: number(func(f *shown) int { return f.Group.Counts.Nodes })},
	{name: "coordd_sessions", kind: gauge, help: "sessions, attached or not",
		read: number(func(f *shown) int { return f.Group.Counts.Sessions })},
	{name: "coordd_semaphores", kind: gauge, help: "semaphores",
		read: number(func(f *shown) int { return f.Group.Counts.Semaphores })},
	{name: "coordd_semaphore_owners", kind: gauge,
		help: "sessions that hold a semaphore, counted for each semaphore",
		read: number(func(f *shown) int { return f.Group.Counts.Owners })},
	{name: "coordd_semaphore_waiters", kind: gauge,
		help: "sessions that wait for a semaphore, counted for each semaphore",
		read: number(func(f *shown) int { return f.Group.Counts.Waiters })},
	{name: "coordd_watches", kind: gauge, help: "watches on semaphores; 0 on servers that do not lead",
		read: number(func(f *shown) int { return f.Group.Watches })},
	{name: "coordd_state_bytes", kind: gauge, help: "size of the state",
		read: number(func(f *shown) uint64 { return f.StateBytes })},
	{name: "coordd_state_limit_bytes", kind: gauge, help: "limit of the state; 0: none",
		read: number(func(f *shown) uint64 { return f.StateLimit })},

	// Connections and what the limits do.
	{name: "coordd_connections", kind: gauge, help: "clients' connections",
		read: number(func(f *shown) int { return f.Connections.Open })},
	{name: "coordd_connections_limit", kind: gauge, help: "limit on connections",
		read: number(func(f *shown) int { return f.Hardening.Connections })},
	{name: "coordd_connections_closed_total", kind: counter, labels: []string{"reason"},
		help: "connections that limits kept out or closed: refused at once, evicted to make room, closed for " +
			"resets, because most of what is received and not worked on was on them, or because the end of a call " +
			"was not read",
		read: each(func(f *shown) map[string]uint64 {
			c := f.Connections
			return map[string]uint64{"refused": c.Refused, "evicted": c.Evicted, "resets": c.Resets,
				"received_bytes": c.ReceivingMost, "end_unread": c.EndUnread}
		})},
	{name: "coordd_calls", kind: gauge, help: "calls under way, without Session streams",
		read: number(func(f *shown) int { return f.Connections.Calls })},
	{name: "coordd_calls_refused_total", kind: counter,
		help: "calls that were refused because too many were under way",
		read: number(func(f *shown) uint64 { return f.Connections.RefusedCalls })},
	{name: "coordd_received_bytes", kind: gauge,
		help: "bytes of messages that are received and not worked on yet",
		read: number(func(f *shown) int64 { return f.Connections.ReceivedBytes })},
	{name: "coordd_budget_used", kind: gauge, labels: []string{"budget"},
		help: "bytes or slots of each budget that are in use",
		read: ofBudgets((*budget.Budget).Used)},
	{name: "coordd_budget_limit", kind: gauge, labels: []string{"budget"}, help: "size of each budget",
		read: ofBudgets((*budget.Budget).Limit)},
	{name: "coordd_streams", kind: gauge, help: "Session streams of this server",
		read: number(func(f *shown) int { return f.Group.Streams })},
	{name: "coordd_streams_limit", kind: gauge, help: "limit on Session streams",
		read: number(func(f *shown) int { return f.Hardening.Streams })},
	{name: "coordd_streams_refused_total", kind: counter,
		help: "Session streams that were refused because there were too many",
		read: number(func(f *shown) uint64 { return f.Connections.RefusedStreams })},
	{name: "coordd_streams_waiting", kind: gauge,
		help: "Session streams that are not read because their requests exceed a limit",
		read: number(func(f *shown) int { return f.Group.QueuedStreams })},
	{name: "coordd_queued_requests", kind: gauge, help: "requests that wait to be handled",
		read: number(func(f *shown) int { return f.Group.Queued })},
	{name: "coordd_request_bytes", kind: gauge,
		help: "bytes of requests on Session streams that have no first answer",
		read: number(func(f *shown) int { return f.Group.RequestBytes })},
	{name: "coordd_limiter_buckets", kind: gauge,
		help: "resources of rate limiters that were acquired on this server",
		read: number(func(f *shown) int { return f.Group.Limiter.Buckets })},
	{name: "coordd_limiter_active", kind: gauge,
		help: "resources of rate limiters for which this server requests units from the leader",
		read: number(func(f *shown) int { return f.Group.Limiter.Active })},
	{name: "coordd_limiter_waiting", kind: gauge, help: "calls that wait on this server for units of rate limiters",
		read: number(func(f *shown) int { return f.Group.Limiter.Waiters })},
	{name: "coordd_limiter_units_total", kind: counter, labels: []string{"counters", "flow"},
		help: "units that this server's buckets were assigned by the leader, " +
			"granted to calls that required them, and reported as used, by the mode of the node's counters; " +
			"`coordd ratelimiter` has them of each resource",
		read: func(f *shown, emit func(float64, ...string)) {
			limiter := &f.Group.Limiter
			for i, flow := range []*quota.Flow{&limiter.Aggregated, &limiter.Detailed} {
				counters := [...]string{"aggregated", "detailed"}[i]
				emit(flow.Assigned, counters, "assigned")
				emit(flow.Granted, counters, "granted")
				emit(flow.Used, counters, "used")
			}
		}},
	{name: "coordd_limiter_resource_units_total", kind: counter, labels: []string{"node", "resource", "flow"},
		help: "the same of a resource that --metrics-resource names, of a node with detailed counters, since the " +
			"first acquire on this server",
		read: ofResources(func(r *server.ResourceFigures, emit func(float64, ...string)) {
			emit(r.Assigned, r.Node, r.Resource, "assigned")
			emit(r.Granted, r.Node, r.Resource, "granted")
			emit(r.Used, r.Node, r.Resource, "used")
		})},
	{name: "coordd_limiter_resource_level", kind: gauge, labels: []string{"node", "resource"},
		help: "units in this server's bucket of such a resource; negative: a debt",
		read: ofResources(func(r *server.ResourceFigures, emit func(float64, ...string)) {
			emit(r.Level, r.Node, r.Resource)
		})},
	{name: "coordd_limiter_resource_waiting", kind: gauge, labels: []string{"node", "resource"},
		help: "calls that wait on this server for units of such a resource",
		read: ofResources(func(r *server.ResourceFigures, emit func(float64, ...string)) {
			emit(float64(r.Waiters), r.Node, r.Resource)
		})},
	{name: "coordd_lock_owners", kind: gauge, labels: lockLabels,
		help: "owners of a semaphore that --metrics-semaphore names, 0 if it does not exist; left out without a leader",
		read: ofLocks(func(l *server.SemaphoreFigures) (float64, bool) { return float64(l.Owners), true })},
	{name: "coordd_lock_waiters", kind: gauge, labels: lockLabels, help: "sessions that wait for such a semaphore",
		read: ofLocks(func(l *server.SemaphoreFigures) (float64, bool) { return float64(l.Waiters), true })},
	{name: "coordd_lock_held_since_timestamp_seconds", kind: gauge, labels: lockLabels,
		help: "when the oldest owner of such a semaphore got it; left out while it has no owner",
		read: ofLocks(func(l *server.SemaphoreFigures) (float64, bool) {
			return seconds(l.HeldSince), !l.HeldSince.IsZero()
		})},
	{name: "coordd_lock_usual_hold_seconds", kind: gauge, labels: lockLabels,
		help: "median time of the last 5 to 20 holds of such a semaphore that this server has seen; left out before",
		read: ofLocks(func(l *server.SemaphoreFigures) (float64, bool) {
			return l.UsualHold.Seconds(), l.UsualHold > 0
		})},
	{name: "coordd_lock_finite_wait_seconds", kind: gauge, labels: lockLabels,
		help: "age of the oldest wait for such a semaphore that has an end, of the first 256 owners and waiters",
		read: ofLocks(func(l *server.SemaphoreFigures) (float64, bool) { return l.Waited.Seconds(), true })},
	{name: "coordd_lock_finite_wait_used_ratio", kind: gauge, labels: lockLabels,
		help: "largest part of its timeout that one of these waits has lasted, 0 to 1",
		read: ofLocks(func(l *server.SemaphoreFigures) (float64, bool) { return l.Used, true })},
	{name: "coordd_certificate_expiry_timestamp_seconds", kind: gauge, labels: []string{"role"},
		help: "when the first certificate of a file expires, by the flag that names the file; 0 if it cannot be read",
		read: func(f *shown, emit func(float64, ...string)) {
			for _, role := range slices.Sorted(maps.Keys(f.certificates)) {
				emit(seconds(f.certificates[role]), role)
			}
		}},
	{name: "coordd_http_connections", kind: gauge, help: "connections of monitoring programs",
		read: number(func(f *shown) int { return f.HTTPConnections })},

	// The cluster.
	{name: "coordd_leads", kind: gauge, help: "1 while this server leads and serves as the leader",
		read: truth(func(f *shown) bool { return f.Group.Leads })},
	{name: "coordd_has_leader", kind: gauge,
		help: "1 while this server has a leader to speak to, itself or another",
		read: truth(func(f *shown) bool { return f.Group.Led })},
	{name: "coordd_may_speak", kind: gauge,
		help: "1 while this server may confirm to clients that their sessions are alive",
		read: truth(func(f *shown) bool { return f.Group.MaySpeak })},
	{name: "coordd_diverged", kind: gauge, help: "1 if this server knows of servers with different states",
		read: truth(func(f *shown) bool { return f.Group.Diverged })},
	{name: "coordd_members", kind: gauge, help: "servers of the cluster, as far as this one knows",
		read: number(func(f *shown) int { return f.Log.Members })},
	{name: "coordd_members_active", kind: gauge,
		help: "others that the leader has heard of lately; 0 on servers that do not lead",
		read: number(func(f *shown) int { return f.Log.Active })},
	{name: "coordd_relays_in", kind: gauge, help: "servers that relay their clients to this one",
		read: number(func(f *shown) int { return f.Group.RelaysIn })},
	{name: "coordd_relay_out", kind: gauge, help: "1 while this server relays its clients to the leader",
		read: truth(func(f *shown) bool { return f.Group.RelayOut })},
	{name: "coordd_relays_opened_total", kind: counter, help: "relays that this server has started",
		read: number(func(f *shown) uint64 { return f.Group.RelaysOpened })},

	// The log and the disk.
	{name: "coordd_raft_term", kind: gauge, help: "raft's term",
		read: number(func(f *shown) uint64 { return f.Log.Term })},
	{name: "coordd_raft_leader_changes_total", kind: counter,
		help: "leader changes that this server has seen",
		read: number(func(f *shown) uint64 { return f.Log.LeaderChanges })},
	{name: "coordd_raft_applied_index", kind: gauge, help: "last entry of the log that is executed",
		read: number(func(f *shown) uint64 { return f.Log.Applied })},
	{name: "coordd_raft_lag_entries", kind: gauge,
		help: "entries that this server lacks; omitted until the leader has reported",
		read: func(f *shown, emit func(float64, ...string)) {
			if f.Group.LagKnown {
				emit(float64(f.Group.Lag))
			}
		}},
	{name: "coordd_raft_proposals_total", kind: counter, help: "entries that were proposed here",
		read: number(func(f *shown) uint64 { return f.Log.Proposed })},
	{name: "coordd_raft_backlog_bytes", kind: gauge, help: "bytes that are proposed and not in raft's log yet",
		read: number(func(f *shown) int64 { return f.Log.Backlog })},
	{name: "coordd_log_append_duration_seconds", kind: histogramKind,
		help:     "time of whole appends to the log: writes, fsync, change of files",
		readings: reading(func(f *shown) histogram.Reading { return f.Log.Appends })},
	{name: "coordd_log_write_duration_seconds", kind: histogramKind,
		help:     "time of the log's writes to the operating system, without fsync",
		readings: reading(func(f *shown) histogram.Reading { return f.Log.Writes })},
	{name: "coordd_log_fsync_duration_seconds", kind: histogramKind, help: "time of the log's fsyncs",
		readings: reading(func(f *shown) histogram.Reading { return f.Log.Syncs })},
	{name: "coordd_checkpoint_duration_seconds", kind: histogramKind,
		help:     "time from the beginning of a checkpoint until it was durable",
		readings: reading(func(f *shown) histogram.Reading { return f.Log.Checkpoints })},
	{name: "coordd_checkpoint_index", kind: gauge, help: "entry as of which the last durable checkpoint is",
		read: number(func(f *shown) uint64 { return f.Log.Checkpoint })},
	{name: "coordd_checkpoint_timestamp_seconds", kind: gauge,
		help: "when the last checkpoint became durable; before the first since the start, when the server started",
		read: func(f *shown, emit func(float64, ...string)) {
			if at := f.Log.CheckpointStored; !at.IsZero() {
				emit(seconds(at))
			} else {
				emit(seconds(f.started))
			}
		}},
	{name: "coordd_checkpoint_open", kind: gauge,
		help: "1 while a checkpoint is being written, or its files are being merged",
		read: truth(func(f *shown) bool { return f.Log.CheckpointOpen })},
	{name: "coordd_disk_free_bytes", kind: gauge,
		help: "free space on the data directory's disk",
		read: number(func(f *shown) uint64 { return f.Log.FreeBytes })},
	{name: "coordd_disk_reserve_bytes", kind: gauge, help: "free space below which the state may not grow",
		read: number(func(f *shown) uint64 { return f.Log.ReserveBytes })},
}

func reading(of func(*shown) histogram.Reading) func(*shown, func(histogram.Reading, ...string)) {
	return func(f *shown, emit func(histogram.Reading, ...string)) { emit(of(f)) }
}

// buildInfo is the one metric that is no figure: its value is always 1.
var buildInfo = metric{name: "coordd_build_info", kind: gauge, labels: []string{"version"},
	help: "1, with the version of the program"}

func (m *metric) describe() *prometheus.Desc {
	return prometheus.NewDesc(m.name, m.help, m.labels, nil)
}
