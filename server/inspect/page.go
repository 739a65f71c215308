package inspect

import (
	"context"
	"encoding/base64"
	"encoding/binary"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/clusterpb"
	"github.com/coordd/coordd/server/group"
)

const (
	// maxPageRows is how many rows a page has at most, and by default.
	maxPageRows = group.MaxInspectedRows
	// maxPageTurns is how many turns a page takes at most: one that finds little is cut short and goes on
	// behind its token.
	maxPageTurns = 64
)

// errMissing is the refusal for a path where the caller may see nothing. It does not reveal what else is there.
var errMissing = status.Error(codes.NotFound,
	"There is no such directory, or no such coordination node whose rows you may read")

// errUndescribed is that of a path that the caller may not describe.
var errUndescribed = status.Error(codes.NotFound, "There is no such path, or none that you may describe")

var errNoSemaphore = status.Error(codes.NotFound, coordination.SemaphoreMissing.Text)

// errLeadsElsewhere is the answer to another server that takes this one for the leader; it never reaches a client.
var errLeadsElsewhere = status.Error(codes.Aborted, "another server leads")

var kinds = map[adminpb.PageRequest_Kind]coordination.InspectionKind{
	adminpb.PageRequest_NODES:      coordination.InspectNodes,
	adminpb.PageRequest_SEMAPHORES: coordination.InspectSemaphores,
	adminpb.PageRequest_SESSIONS:   coordination.InspectSessions,
	adminpb.PageRequest_RESOURCES:  coordination.InspectResources}

// listing is a page under way.
type listing struct {
	q         *coordination.Inspection
	filter    adminpb.PageRequest_Filter
	at        coordination.InspectionPlace
	left      int // rows that there is room for
	page      *clusterpb.SessionsResponse
	resources []coordination.ResourceKey // those of the page
}

func newListing(r *adminpb.PageRequest, caller coordination.Caller) (*listing, error) {
	kind, known := kinds[r.GetKind()]
	if !known {
		return nil, status.Error(codes.InvalidArgument, "kind: want NODES, SEMAPHORES, SESSIONS or RESOURCES")
	}
	at, err := placeOf(r.GetPageToken())
	l := &listing{filter: r.GetFilter(), at: at, left: maxPageRows,
		page: &clusterpb.SessionsResponse{Response: &adminpb.Page{}},
		q: &coordination.Inspection{Kind: kind, Path: scheme.SplitLoose(r.GetPath()), Prefix: string(r.GetPrefix()),
			Exact: r.GetExact(), Persistent: r.GetFilter() == adminpb.PageRequest_PERSISTENT,
			Resource: r.GetResource(), Session: coordination.SessionID(r.GetSession()),
			Data: int(min(r.GetDataBytes(), coordination.MaxSemaphoreDataBytes)), Caller: caller}}
	if size := r.GetPageSize(); size != 0 {
		l.left = int(min(max(size, coordination.MinInspectedRows), maxPageRows))
	}
	return l, err
}

// page collects a page of what this server has applied, turn by turn, once it has everything that was committed
// before the call. Errors: errLeadsElsewhere, those for clients.
func (s *Service) page(ctx context.Context, l *listing) error {
	if err := s.Group.CatchUp(ctx); err != nil {
		return calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	for turns := 0; turns < maxPageTurns && l.left >= coordination.MinInspectedRows; turns++ {
		found, err := s.Group.Inspect(ctx, l.q, l.at, l.left)
		switch {
		case err != nil:
			return calls.GRPCStatus(ctx, outcome.Outcome{}, err)
		case found.Missing:
			return errMissing
		case l.q.Kind == coordination.InspectSessions && found.Standings == nil:
			return errLeadsElsewhere
		}
		l.add(&found)
		if found.Done {
			return nil
		}
		l.at = found.Next
	}
	l.page.Response.NextPageToken = tokenOf(l.at)
	return nil
}

// add adds what a turn found to the page. What is continued is so after an element of the page or of the one before.
func (l *listing) add(found *group.Inspected) {
	to := l.page.Response
	l.left -= len(found.Nodes) + len(found.Semaphores) + len(found.Sessions) + len(found.Resources) + found.Weight
	for i := range found.Nodes {
		to.Nodes = append(to.Nodes, nodeToPB(&found.Nodes[i]))
	}
	for i := range found.Semaphores {
		seen := &found.Semaphores[i]
		if l.filter == adminpb.PageRequest_HELD && seen.Owners+seen.Waiters == 0 {
			continue
		}
		if len(to.Semaphores) == 0 || !seen.Continued {
			to.Semaphores = append(to.Semaphores, semaphoreToPB(seen, l.q.Data))
		}
		p := to.Semaphores[len(to.Semaphores)-1]
		p.Owners, p.Waiters = l.addLinks(seen.Links, p.Owners, p.Waiters)
	}
	for i := range found.Sessions {
		seen, standing := &found.Sessions[i], &found.Standings[i]
		if l.filter == adminpb.PageRequest_DETACHED && standing.Attached {
			continue
		}
		if last := len(to.Sessions) - 1; last < 0 || !seen.Continued || to.Sessions[last].GetId() != uint64(seen.ID) {
			addSession(l.page, seen, standing)
		}
		p := to.Sessions[len(to.Sessions)-1]
		p.Owned, p.Awaited = l.addLinks(seen.Links, p.Owned, p.Awaited)
	}
	for i := range found.Resources {
		seen := &found.Resources[i]
		to.Resources = append(to.Resources, resourceToPB(seen))
		l.resources = append(l.resources, coordination.ResourceKey{Node: seen.Node, ID: seen.ID})
	}
}

// addSession adds a session and its stream to a page.
func addSession(to *clusterpb.SessionsResponse, seen *coordination.InspectedSession, standing *group.Standing) {
	to.Response.Sessions = append(to.Response.Sessions, sessionToPB(seen, standing))
	to.Servers = append(to.Servers, standing.Server)
	to.Streams = append(to.Streams, uint64(standing.Stream))
}

func (l *listing) addLinks(links []coordination.InspectedLink, owners, waiters []*adminpb.Link) (_, _ []*adminpb.Link) {
	l.left -= len(links)
	for i := range links {
		if p := linkToPB(&links[i], l.q.Data); links[i].Owner {
			owners = append(owners, p)
		} else {
			waiters = append(waiters, p)
		}
	}
	return owners, waiters
}

// tokenVersion begins every token: one of another version means nothing.
const tokenVersion = 1

var errToken = status.Error(codes.InvalidArgument,
	"The page token is none that a server of this version has given")

func tokenOf(at coordination.InspectionPlace) string {
	token := []byte{tokenVersion}
	for _, n := range []uint64{uint64(at.Entry), uint64(at.Node), at.ID, uint64(at.Links), uint64(at.Order),
		at.Near} {
		token = binary.AppendUvarint(token, n)
	}
	return base64.RawURLEncoding.EncodeToString(token)
}

func placeOf(token string) (coordination.InspectionPlace, error) {
	if token == "" {
		return coordination.InspectionPlace{}, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(data) == 0 || data[0] != tokenVersion {
		return coordination.InspectionPlace{}, errToken
	}
	data = data[1:]
	var numbers [6]uint64
	for i := range numbers {
		n, length := binary.Uvarint(data)
		if length <= 0 {
			return coordination.InspectionPlace{}, errToken
		}
		numbers[i], data = n, data[length:]
	}
	if len(data) > 0 || numbers[3] > uint64(coordination.LinksOfSession) {
		return coordination.InspectionPlace{}, errToken
	}
	return coordination.InspectionPlace{Entry: scheme.EntryID(numbers[0]),
		Node: coordination.NodeID(numbers[1]), ID: numbers[2], Links: coordination.InspectedLinks(numbers[3]),
		Order: coordination.OrderID(numbers[4]), Near: numbers[5]}, nil
}
