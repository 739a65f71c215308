package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"

	"github.com/coordd/coordd/conformance/sim/check"
	"github.com/coordd/coordd/conformance/sim/client"
	"github.com/coordd/coordd/conformance/sim/process"
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore/datadir"
)

// endProcesses ends all servers, and reads from their files the facts that hooks report in a simulation: the executed
// entries, the digests before each of them, and the messages of the logs. It returns the whole history.
func (w *World) endProcesses() []check.Event {
	if err := w.lastEntry(); err != nil {
		w.do(func() { w.violation("after the end of the clients: %v", err) })
	}
	w.agree()
	w.do(func() {
		for _, s := range w.servers {
			if s.life != nil {
				w.bury(s.life, true)
			}
		}
	})
	digests := map[coordination.Index]uint64{}
	var executed []process.Executed
	servers := map[time.Duration]int{} // by the time of a record
	for i, s := range w.servers {
		s.processes.turn <- struct{}{} // the process is gone
		list, err := process.Read(s.journal())
		text, missing := os.ReadFile(s.log())
		w.do(func() {
			if err != nil {
				w.violation("the simulation cannot read a journal: %v", err)
			}
			if missing == nil {
				w.logs.read(text)
			}
			for _, e := range list {
				w.counts["digests compared"]++
				if other, known := digests[e.Before]; known && other != e.Digest {
					w.violation("%s has another state than others at entry %d", s.name, e.Before)
				}
				digests[e.Before] = e.Digest
			}
			w.checkDirectory(s)
		})
		for _, e := range list {
			for servers[e.At] != 0 { // in no relation to each other
				e.At++
			}
			servers[e.At] = i + 1
			executed = append(executed, e)
		}
	}
	slices.SortFunc(executed, func(a, b process.Executed) int { return cmp.Compare(a.At, b.At) })
	return w.merged(executed, servers)
}

// lastEntry makes all servers execute one entry more, before which all have to have the same state.
func (w *World) lastEntry() error {
	ctx, cancel := context.WithTimeout(context.Background(), agreePatience)
	defer cancel()
	for i := 0; ; i++ {
		conn, err := client.Connect(environment{w}, administratorHost, i%len(w.servers))
		if err != nil {
			return err
		}
		bounded, stop := context.WithTimeout(ctx, callPatience)
		_, err = Ydb_Coordination_V1.NewCoordinationServiceClient(conn).CreateNode(bounded,
			&Ydb_Coordination.CreateNodeRequest{Path: "/local/last"})
		stop()
		if err = errors.Join(err, conn.Close()); err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// checkDirectory does what `coordd check` does. The lock is held.
func (w *World) checkDirectory(s *server) {
	if s.member != present || s.ruined != "" {
		return
	}
	if _, err := datadir.Check(s.disk.Dir()); err != nil && !s.rotten {
		w.violation("the directory of %s: %v", s.name, err)
	}
	w.counts["directories checked"]++
}

// merged returns the history with the entries at their places. Times of the history are made to rise: an event comes
// after what was recorded before it.
func (w *World) merged(executed []process.Executed, servers map[time.Duration]int) []check.Event {
	var entries check.History
	for i := range executed {
		e := &executed[i]
		entries.Execute(e.At-w.began, servers[e.At], &e.Entry)
	}
	list, at := slices.Clone(w.history.Events()), time.Duration(0)
	for i := range list {
		at = max(at, list[i].At)
		list[i].At = at
	}
	list = append(list, entries.Events()...)
	slices.SortStableFunc(list, func(a, b check.Event) int { return cmp.Compare(a.At, b.At) })
	return list
}

// message finds the message in a line of a log.
var message = regexp.MustCompile(`(?m)^time=\S+ level=\S+ msg=("(?:[^"\\]|\\.)*"|\S+)`)

// read counts the messages of a log, and keeps its end.
func (l *logs) read(text []byte) {
	for _, found := range message.FindAllSubmatch(text, -1) {
		said := string(found[1])
		if unquoted, err := strconv.Unquote(said); err == nil {
			said = unquoted
		}
		if !strings.HasPrefix(said, "raft: ") {
			l.counts[said]++
		}
	}
	l.last.Write(text[max(0, len(text)-logsKept/4):])
	fmt.Fprintln(&l.last)
}
