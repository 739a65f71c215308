package inspect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/clusterpb"
	"github.com/coordd/coordd/server/group"
)

// clientPatience is how long a page waits for the servers that hold the streams of its sessions.
const clientPatience = 300 * time.Millisecond

var (
	// errLeadsElsewhere is what a server answers another one that takes it for the leader; it never reaches a
	// client.
	errLeadsElsewhere = status.Error(codes.Aborted, "another server leads")
	errOlderLeader    = status.Error(codes.Unimplemented,
		"The leader has no inspection service: it is of an older version")
)

// Connection is who is at the other end of a stream. The group's clients have it.
type Connection interface {
	Connection() *adminpb.SessionClient
}

// sessions has the leader list sessions, wherever it is.
func (s *Service) sessions(ctx context.Context, r *adminpb.ListSessionsRequest,
	caller coordination.Caller) (page *clusterpb.SessionsResponse, err error) {
	unasked := s.Group.AskLeader(ctx, func(bool) group.Asked {
		if s.Group.Leads() {
			page, err = s.sessionsHere(ctx, r, caller)
		} else if conn := s.Group.RelayConn(); conn != nil {
			page, err = clusterpb.NewInspectClient(conn).Sessions(ctx,
				&clusterpb.SessionsRequest{Request: r, Subject: []byte(caller.Subject),
					Enforced: caller.Enforced})
			switch code := status.Code(err); {
			case code == codes.Unimplemented:
				err = errOlderLeader
			case ctx.Err() == nil && (code == codes.Unavailable || code == codes.Canceled):
				// the leader went away
				return group.LeaderGone
			}
		} else {
			return group.NotLed
		}
		if errors.Is(err, errLeadsElsewhere) || status.Code(err) == codes.Aborted {
			return group.NotLed
		}
		return group.Answered
	})
	if unasked != nil {
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, unasked)
	}
	return page, err
}

// sessionsHere lists sessions as the leader. Errors: errLeadsElsewhere, those for clients.
func (s *Service) sessionsHere(ctx context.Context, r *adminpb.ListSessionsRequest,
	caller coordination.Caller) (*clusterpb.SessionsResponse, error) {
	if !s.Group.Leads() {
		return nil, errLeadsElsewhere
	}
	q := &coordination.Inspection{Kind: coordination.InspectSessions, Path: scheme.SplitLoose(r.GetPath()),
		Session: coordination.SessionID(r.GetSession()), Caller: caller}
	page, rows, deposed := &clusterpb.SessionsResponse{Response: &adminpb.ListSessionsResponse{}}, 0, false
	next, err := s.upToDate(ctx, q, r.GetPageToken(), r.GetPageSize(), func(found *group.Inspected) int {
		if deposed = deposed || found.Standings == nil; deposed {
			return maxPageRows
		}
		for i := range found.Sessions {
			rows += addSession(page, &found.Sessions[i], &found.Standings[i])
		}
		return rows
	})
	switch {
	case deposed:
		return nil, errLeadsElsewhere
	case err != nil:
		return nil, err
	}
	page.Response.NextPageToken = next
	return page, nil
}

// addSession adds a session to a page, or more of its last one. It returns how many rows that was.
func addSession(page *clusterpb.SessionsResponse, seen *coordination.InspectedSession,
	standing *group.Standing) (rows int) {
	list := page.Response.Sessions
	if len(list) == 0 || !seen.Continued {
		p := sessionToPB(seen)
		p.Attached, p.DetachedMillis, p.LeftMillis = standing.Attached, standing.DetachedMillis,
			standing.LeftMillis
		list = append(list, p)
		page.Response.Sessions = list
		page.Servers, page.Streams = append(page.Servers, standing.Server),
			append(page.Streams, uint64(standing.Stream))
		rows++
	}
	p := list[len(list)-1]
	for i := range seen.Links {
		if l := linkToPB(&seen.Links[i]); seen.Links[i].Owner {
			p.Owned = append(p.Owned, l)
		} else {
			p.Awaited = append(p.Awaited, l)
		}
		rows++
	}
	return rows
}

// fillClients fills in who has the sessions of a page: the servers that hold their streams know.
func (s *Service) fillClients(ctx context.Context, page *clusterpb.SessionsResponse, caller coordination.Caller) {
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	members := s.Group.Log().Members()
	attached := make(map[uint64][]int) // the sessions whose streams a server has
	for i, p := range page.GetResponse().GetSessions() {
		if p.GetAttached() && i < len(page.GetServers()) && i < len(page.GetStreams()) {
			server := page.GetServers()[i]
			p.Server = members.NameOf(server)
			attached[server] = append(attached[server], i)
		}
	}
	all := s.administers(caller)
	var asked sync.WaitGroup
	for server, sessions := range attached {
		asked.Go(func() {
			streams := make([]uint64, len(sessions))
			for i, at := range sessions {
				streams[i] = page.GetStreams()[at]
			}
			clients, unknown := s.clientsOf(ctx, members, server, streams)
			for i, at := range sessions {
				p := page.GetResponse().GetSessions()[at]
				switch {
				case unknown != "":
					p.ClientUnknown = unknown
				case clients[i].GetAddress() == "":
					p.ClientUnknown = "its stream has just ended"
				case !all && (caller.Subject == "" || clients[i].GetUser() != caller.Subject):
					p.ClientUnknown = "only administrators are shown the clients of others"
				default:
					p.Client = clients[i]
				}
			}
		})
	}
	asked.Wait()
}

// clientsOf asks a server who the clients of its streams are. If that remains unknown it says why.
func (s *Service) clientsOf(ctx context.Context, members raftstore.Members, server uint64,
	streams []uint64) (clients []*adminpb.SessionClient, unknown string) {
	if server == s.Group.Log().Member() {
		return s.clientsHere(streams).GetClients(), ""
	}
	conn, unknown := s.dial(members, server)
	if unknown != "" {
		return nil, unknown
	}
	defer conn.Close()
	answer, err := clusterpb.NewInspectClient(conn).Clients(ctx, &clusterpb.ClientsRequest{Streams: streams})
	if err != nil || len(answer.GetClients()) != len(streams) {
		return nil, s.unanswered(members, server, err)
	}
	return answer.GetClients(), ""
}

// dial makes a connection to another server, or says why that cannot be.
func (s *Service) dial(members raftstore.Members, server uint64) (conn *grpc.ClientConn, why string) {
	name := members.NameOf(server)
	member, found := members.Find(server)
	if !found {
		return nil, fmt.Sprintf("server %s is no member any more", name)
	}
	conn, err := s.Group.Log().DialPeer(member.PeerAddress)
	if err != nil {
		return nil, fmt.Sprintf("server %s cannot be asked", name)
	}
	return conn, ""
}

// unanswered says why another server did not tell what it was asked.
func (s *Service) unanswered(members raftstore.Members, server uint64, err error) string {
	name := members.NameOf(server)
	if status.Code(err) == codes.Unimplemented {
		return fmt.Sprintf("server %s does not tell: it is of an older version", name)
	}
	s.Logger.Debug("a server did not tell what only it knows", "server", name, "error", err)
	return fmt.Sprintf("server %s does not answer", name)
}

// clientsHere tells who the clients of streams of this server are, an empty one for a stream that is gone.
func (s *Service) clientsHere(streams []uint64) *clusterpb.ClientsResponse {
	response := &clusterpb.ClientsResponse{Clients: make([]*adminpb.SessionClient, len(streams))}
	for i, stream := range streams {
		response.Clients[i] = &adminpb.SessionClient{}
		if client, is := s.Group.ClientOf(coordination.StreamID(stream)).(Connection); is {
			response.Clients[i] = client.Connection()
		}
	}
	return response
}
