package inspect

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/revisions"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/clusterpb"
)

// Versions implements adminpb.InspectServer.
func (s *Service) Versions(ctx context.Context, r *adminpb.VersionsRequest) (*adminpb.VersionsResponse, error) {
	ctx, cancel, caller, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	if err := s.Group.CatchUp(ctx); err != nil {
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	answer, of, mayUpdate := new(adminpb.VersionsResponse), new(clusterpb.FormerRequest), false
	missing := errMissing
	_, err = s.Group.Read(ctx, func(m *coordination.Machine) outcome.Outcome {
		entry, found := m.Tree().Lookup(scheme.SplitLoose(r.GetPath()))
		if !found {
			return outcome.Done()
		}
		rights := m.Tree().Rights(entry, m.Subject(caller))
		row := m.FindSemaphore(entry.Node, string(r.GetName()))
		mayUpdate = rights&scheme.UpdateRow != 0
		switch {
		case rights&scheme.SelectRow == 0:
		case row.ID == 0:
			missing = errNoSemaphore
		default:
			missing, answer.Present = nil, versionToPB(&row)
			of.Node, of.Semaphore = uint64(row.Node), uint64(row.ID)
			history, _ := coordination.Revisions(m, row.Node, row.ID)
			answer.History = adminpb.History(history)
		}
		return outcome.Done()
	})
	if err != nil {
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	if r.GetFormer() && answer.GetPresent() != nil {
		s.fillFormer(ctx, answer, of)
	}
	answer.MayUpdate = mayUpdate
	for _, v := range append(answer.GetFormer(), answer.GetPresent()) {
		if v == nil {
			continue
		}
		if most := int(r.GetDataBytes()); most > 0 {
			v.Data = v.Data[:min(most, len(v.Data))]
		}
		if !mayUpdate { // the caller may only read the data
			v.Author = ""
		}
	}
	return answer, missing
}

// SetHistory implements adminpb.InspectServer.
func (s *Service) SetHistory(ctx context.Context, r *adminpb.SetHistoryRequest) (*adminpb.SetHistoryResponse, error) {
	ctx, cancel, caller, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	answer, err := s.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.SetHistory{CallID: call, Caller: caller, Path: scheme.SplitLoose(r.GetPath()),
			History: coordination.History(min(max(r.GetHistory(), 0), math.MaxUint8))}
	})
	return &adminpb.SetHistoryResponse{}, calls.GRPCStatus(ctx, answer, err)
}

// fillFormer fills in the former versions of a semaphore's data that any server remembers: each one once, with its data
// if a server has it.
func (s *Service) fillFormer(ctx context.Context, answer *adminpb.VersionsResponse, request *clusterpb.FormerRequest) {
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	_, answers, unknown := askAll(ctx, s, request, func() *clusterpb.FormerResponse {
		own, _ := s.formerHere(ctx, request) // what this server cannot say is missing
		return own
	})
	answer.Unknown = append(answer.Unknown, unknown...)
	known := make(map[uint64]*adminpb.Version)
	for _, former := range answers {
		for _, v := range permitted(answer.GetHistory(), former.GetVersions()) {
			before := known[v.GetVersion()]
			if v.GetVersion() < answer.GetPresent().GetVersion() && (before == nil || before.GetWithoutData()) {
				known[v.GetVersion()] = v
			}
		}
	}
	for _, v := range known {
		answer.Former = append(answer.Former, v)
	}
	slices.SortFunc(answer.Former,
		func(a, b *adminpb.Version) int { return cmp.Compare(a.GetVersion(), b.GetVersion()) })
}

// permitted returns what the history of a node keeps of former versions. This server has caught up; one that lags may
// not know yet that it was to forget them.
func permitted(history adminpb.History, versions []*adminpb.Version) []*adminpb.Version {
	if history == adminpb.History_NONE {
		return nil
	}
	for _, v := range versions {
		if history != adminpb.History_DATA {
			v.Data, v.WithoutData = nil, true
		}
	}
	return versions
}

// formerHere lists the former versions that this server remembers.
func (s *Service) formerHere(ctx context.Context, r *clusterpb.FormerRequest) (*clusterpb.FormerResponse, error) {
	var found []revisions.Revision
	_, err := s.Group.Read(ctx, func(m *coordination.Machine) outcome.Outcome {
		_, found = coordination.Revisions(m, coordination.NodeID(r.GetNode()),
			coordination.SemaphoreID(r.GetSemaphore()))
		return outcome.Done()
	})
	if err != nil {
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	response := new(clusterpb.FormerResponse)
	for _, f := range found {
		response.Versions = append(response.Versions, &adminpb.Version{Version: f.Version, ChangedMillis: f.Millis,
			Author: Shown(f.Author), Data: f.Data, DataBytes: uint64(f.Bytes), WithoutData: !f.Kept})
	}
	return response, nil
}
