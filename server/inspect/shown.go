package inspect

import (
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/group"
)

const (
	// maxShownBytes bounds the part of a text of a client that is shown.
	maxShownBytes = 128
)

// Shown is a text that a client has chosen as this service shows it.
func Shown[T ~string | ~[]byte](text T) string { return lograte.Printable(text, maxShownBytes) }

func nodeToPB(n *coordination.InspectedNode) *adminpb.Node {
	return &adminpb.Node{Path: n.Path.String(), Id: uint64(n.ID), Sessions: uint64(n.Sessions),
		Semaphores: uint64(n.Semaphores), Owner: Shown(n.Owner), CreatedMillis: n.Created.PlanStep,
		History: adminpb.History(n.History)}
}

func semaphoreToPB(s *coordination.InspectedSemaphore, data int) *adminpb.Semaphore {
	return &adminpb.Semaphore{Path: s.Path.String(), Id: uint64(s.ID), Name: []byte(s.Name),
		Data: s.Data[:min(len(s.Data), data)], DataBytes: uint64(len(s.Data)), Count: s.Count, Limit: s.Limit,
		Ephemeral: s.Ephemeral, OwnerCount: uint64(s.Owners), WaiterCount: uint64(s.Waiters),
		Continued: s.Continued, Version: s.Version}
}

// versionToPB returns the present version of a semaphore's data, nil if its changes do not count.
func versionToPB(row *coordination.SemaphoreRow) *adminpb.Version {
	if row.Version == 0 {
		return nil
	}
	return &adminpb.Version{Version: row.Version, ChangedMillis: row.ChangedMillis, Author: Shown(row.Author),
		Data: row.Data, DataBytes: uint64(len(row.Data))}
}

func sessionToPB(s *coordination.InspectedSession, standing *group.Standing) *adminpb.Session {
	return &adminpb.Session{Path: s.Path.String(), Id: uint64(s.ID), Description: Shown(s.Description),
		DescriptionBytes: uint64(len(s.Description)), TimeoutMillis: s.TimeoutMillis,
		BeganMillis: s.BeganMillis, HasKey: s.Protected, Continued: s.Continued, Attached: standing.Attached,
		DetachedMillis: standing.DetachedMillis, LeftMillis: standing.LeftMillis}
}

func resourceToPB(r *coordination.InspectedResource) *adminpb.Resource {
	p, e := &r.Properties, &r.Effective
	return &adminpb.Resource{Path: r.Path.String(), Id: uint64(r.ID), Resource: r.Name,
		Set: &adminpb.ResourceSettings{MaxUnitsPerSecond: p.MaxUnitsPerSecond.Float(),
			MaxBurstSizeCoefficient: p.MaxBurstSizeCoefficient.Float(),
			PrefetchCoefficient:     p.PrefetchCoefficient.Float(),
			PrefetchWatermark:       p.PrefetchWatermark.Float()},
		Effective: &adminpb.ResourceSettings{MaxUnitsPerSecond: e.Rate, PrefetchCoefficient: e.Prefetch,
			PrefetchWatermark: e.Watermark}}
}

func bucketToPB(s *quota.State) *adminpb.ResourceBucket {
	return &adminpb.ResourceBucket{Level: s.Level, Capacity: s.Capacity, Waiters: uint64(s.Waiters),
		Waiting: s.Waiting, Asks: s.Asks, Assigned: s.Assigned, Granted: s.Granted, Used: s.Used,
		PerSecond: s.PerSecond}
}

func linkToPB(l *coordination.InspectedLink, data int) *adminpb.Link {
	return &adminpb.Link{Session: uint64(l.Session), Semaphore: uint64(l.Semaphore), Name: []byte(l.Name),
		OrderId: uint64(l.Order), Count: l.Count, SinceMillis: l.BeganMillis, TimeoutMillis: l.TimeoutMillis,
		Data: l.Data[:min(len(l.Data), data)], DataBytes: uint64(len(l.Data))}
}

// redact removes the parts of an event that only administrators and the user of its client see.
func redact(e *adminpb.Event, user string, administers bool) {
	if administers {
		return
	}
	if user == "" || e.GetClient().GetUser() != user {
		e.Client, e.Reason = nil, ""
	}
	if user == "" || e.GetUser() != user {
		e.User = ""
	}
}
