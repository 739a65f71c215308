package inspect

import (
	"strings"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	// maxShownBytes bounds what is shown of a text or of data that a client has chosen.
	maxShownBytes = 128
	// maxNameBytes bounds the name of a semaphore. Only an ephemeral one may have a longer name.
	maxNameBytes = coordination.MaxSemaphoreNameBytes
)

// Shown is a text that a client has chosen as this service shows it.
func Shown[T ~string | ~[]byte](text T) string { return lograte.Printable(text, maxShownBytes) }

// name is a semaphore's name as requests take it, cut behind maxNameBytes.
func name(of string) string { return strings.ToValidUTF8(of[:min(len(of), maxNameBytes)], "") }

func nodeToPB(n *coordination.InspectedNode) *adminpb.Node {
	return &adminpb.Node{Path: n.Path.String(), Id: uint64(n.ID), Sessions: uint64(n.Sessions),
		Semaphores: uint64(n.Semaphores), Owner: Shown(n.Owner), CreatedMillis: n.Created.PlanStep}
}

func semaphoreToPB(s *coordination.InspectedSemaphore) *adminpb.Semaphore {
	return &adminpb.Semaphore{Path: s.Path.String(), Id: uint64(s.ID), Name: name(s.Name),
		NameBytes: uint64(len(s.Name)), Data: Shown(s.Data), DataBytes: uint64(len(s.Data)), Count: s.Count,
		Limit: s.Limit, Ephemeral: s.Ephemeral, OwnerCount: uint64(s.Owners), WaiterCount: uint64(s.Waiters),
		Continued: s.Continued}
}

func sessionToPB(s *coordination.InspectedSession) *adminpb.Session {
	return &adminpb.Session{Path: s.Path.String(), Id: uint64(s.ID), Description: Shown(s.Description),
		DescriptionBytes: uint64(len(s.Description)), TimeoutMillis: s.TimeoutMillis,
		BeganMillis: s.BeganMillis, HasKey: s.Protected, Continued: s.Continued}
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
		Waiting: s.Waiting, Asks: s.Asks, Assigned: s.Assigned, Granted: s.Granted, Used: s.Used}
}

func linkToPB(l *coordination.InspectedLink) *adminpb.Link {
	return &adminpb.Link{Session: uint64(l.Session), Semaphore: uint64(l.Semaphore), Name: name(l.Name),
		OrderId: uint64(l.Order), Count: l.Count, SinceMillis: l.BeganMillis, TimeoutMillis: l.TimeoutMillis,
		Data: Shown(l.Data), DataBytes: uint64(len(l.Data))}
}
