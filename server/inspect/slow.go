package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/clusterpb"
	"github.com/coordd/coordd/server/group/slowest"
	"github.com/coordd/coordd/server/meters"
)

// maxSlow bounds an answer with slow requests, which have up to a kilobyte each.
const maxSlow = 1000

var errSlow = status.Error(codes.PermissionDenied,
	"Only a cluster administrator may see the slow requests of all sessions")

// Slow implements adminpb.InspectServer.
func (s *Service) Slow(ctx context.Context, r *adminpb.SlowRequest) (*adminpb.SlowResponse, error) {
	ctx, cancel, caller, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if !s.administers(caller) {
		return nil, errSlow
	}
	asking, cancelAsking := context.WithTimeout(ctx, eventsPatience)
	defer cancelAsking()
	_, answers, unknown := askAll(asking, s, &clusterpb.SlowQuestion{Request: r},
		func() *clusterpb.SlowAnswer { return &clusterpb.SlowAnswer{Response: s.slowHere(r)} })
	response := &adminpb.SlowResponse{Unknown: unknown}
	for _, answer := range answers {
		response.Calls = append(response.Calls, answer.GetResponse().GetCalls()...)
	}
	response.Calls = slowestOf(response.GetCalls(), r)
	for _, c := range response.GetCalls() {
		c.Cause = slowCause(c)
	}
	looking, cancelLooking := context.WithTimeout(ctx, clientPatience)
	defer cancelLooking()
	_, _ = s.Group.Read(looking, func(m *coordination.Machine) outcome.Outcome { // without a turn paths are missing
		for _, c := range response.GetCalls() {
			if path := m.PathOfNode(coordination.NodeID(c.GetNode())); path != nil {
				c.Path = path.String()
			}
		}
		return outcome.Done()
	})
	return response, ctx.Err()
}

// slowestOf sorts requests, the slowest first, and returns as many as are wanted.
func slowestOf(list []*adminpb.SlowCall, r *adminpb.SlowRequest) []*adminpb.SlowCall {
	slices.SortFunc(list, func(a, b *adminpb.SlowCall) int {
		return cmp.Compare(b.GetTotalMicros(), a.GetTotalMicros())
	})
	return list[:min(int(min(cmp.Or(r.GetLimit(), maxSlow), maxSlow)), len(list))]
}

// slowHere returns the slow requests that this server keeps, without the paths of their nodes.
func (s *Service) slowHere(r *adminpb.SlowRequest) *adminpb.SlowResponse {
	log, response := s.Group.Log(), &adminpb.SlowResponse{}
	server := log.Members().NameOf(log.Member())
	if r.GetServer() != "" && r.GetServer() != server {
		return response
	}
	micros := func(d time.Duration) uint32 { return uint32(slowest.MicrosOf(d)) }
	within := time.Duration(min(cmp.Or(r.GetWithinMillis(), 1<<40), 1<<40)) * time.Millisecond
	for _, w := range s.Group.Slow.Windows() {
		window := &adminpb.SlowWindow{EndsMillis: uint64(w.Ends.UnixMilli()), Collections: uint32(w.Collections),
			PausedMicros: micros(w.CollectionPaused), CollectionMicros: micros(w.CollectionTook),
			AssistedMicros: micros(w.AssistedFor), LongestTurnMicros: micros(w.LongestTurn),
			LongestWriteMicros: micros(w.LongestWrite), LongestSyncMicros: micros(w.LongestSync)}
		for _, q := range w.Records {
			if time.Since(time.Unix(0, q.Ended)) > within {
				continue
			}
			call := &adminpb.SlowCall{EndedMillis: uint64(q.Ended / int64(time.Millisecond)), Server: server,
				Kind: meters.RequestNames[q.Kind], Node: uint64(q.Node), Session: uint64(q.Session),
				Semaphore: []byte(q.Name), TotalMicros: uint32(q.Total), CollectingMicros: uint32(q.Collecting),
				LongTurnMicros: uint32(q.LongTurn), Checkpoint: q.Checkpoint, LeaderChanged: q.NewLeader,
				Window: window}
			for stage, took := range q.Stages {
				if took > 0 {
					call.Stages = append(call.Stages,
						&adminpb.SlowStage{Stage: slowest.Stage(stage).String(), Micros: uint32(took)})
				}
			}
			slices.SortStableFunc(call.Stages, func(a, b *adminpb.SlowStage) int {
				return cmp.Compare(b.GetMicros(), a.GetMicros())
			})
			response.Calls = append(response.Calls, call)
		}
	}
	response.Calls = slowestOf(response.GetCalls(), r)
	return response
}

// microsText is a time with three digits, or in seconds.
func microsText(micros uint32) string {
	if millis := float64(micros) / 1000; millis < 999.5 {
		return fmt.Sprintf("%.3g ms", millis)
	}
	return fmt.Sprintf("%.1f s", float64(micros)/1e6)
}

// stageTexts describes the stages (server/group/slowest).
var stageTexts = map[string]string{"room": "until the server had room", "turn": "until a turn of the group",
	"encode": "in its turn before the log", "log": "until the log was written", "write": "in the write of the log",
	"sync": "in the sync of the log", "commit": "until it was committed", "apply": "until it was executed",
	"answer": "until its turn answered", "send": "until the answer was sent", "leader": "until the leader answered"}

// slowCause describes where a request spent most of its time, and what went on meanwhile.
func slowCause(q *adminpb.SlowCall) string {
	var parts []string
	for i, s := range q.GetStages() {
		if i == 0 || i < 3 && s.GetMicros() > q.GetTotalMicros()/5 {
			parts = append(parts, microsText(s.GetMicros())+" "+cmp.Or(stageTexts[s.GetStage()], "in "+s.GetStage()))
		}
	}
	text := strings.Join(parts, ", ")
	if turn := q.GetLongTurnMicros(); turn > q.GetTotalMicros()/5 {
		text += "; a turn took " + microsText(turn)
	}
	if q.GetCollectingMicros() > 0 {
		text += "; garbage was collected for about " + microsText(q.GetCollectingMicros())
	}
	if q.GetCheckpoint() {
		text += "; a checkpoint was being written"
	}
	if q.GetLeaderChanged() {
		text += "; the leader changed"
	}
	return text
}
