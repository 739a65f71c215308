package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/raftstore"
	"github.com/coordd/coordd/raftstore/peers"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/clusterpb"
	"github.com/coordd/coordd/server/group"
)

// clientPatience is how long a page waits for the servers that hold the streams of its sessions.
const clientPatience = 300 * time.Millisecond

// Connection is who is at the other end of a stream. The group's clients have it.
type Connection interface {
	Connection() *adminpb.SessionClient
}

// askLeader asks the leader for sessions, wherever it is: here is called if it is on this server, and elsewhere
// answers the question.
func (s *Service) askLeader(ctx context.Context, question proto.Message,
	here func(ctx context.Context) (*clusterpb.SessionsResponse, error)) (page *clusterpb.SessionsResponse, err error) {
	unasked := s.Group.AskLeader(ctx, func(bool) group.Asked {
		if s.Group.Leads() {
			page, err = here(ctx)
		} else if conn := s.Group.RelayConn(); conn != nil {
			page = &clusterpb.SessionsResponse{}
			err = peers.Ask(ctx, conn, question, page)
			if code := status.Code(err); ctx.Err() == nil && (code == codes.Unavailable || code == codes.Canceled) {
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

// sessions asks the leader to list sessions.
func (s *Service) sessions(ctx context.Context, r *adminpb.PageRequest,
	caller coordination.Caller) (*clusterpb.SessionsResponse, error) {
	question := &clusterpb.SessionsRequest{Request: r, Subject: []byte(caller.Subject), Enforced: caller.Enforced}
	return s.askLeader(ctx, question, func(ctx context.Context) (*clusterpb.SessionsResponse, error) {
		return s.sessionsHere(ctx, r, caller)
	})
}

// sessionsHere lists sessions as the leader. Errors: errLeadsElsewhere, those for clients.
func (s *Service) sessionsHere(ctx context.Context, r *adminpb.PageRequest,
	caller coordination.Caller) (*clusterpb.SessionsResponse, error) {
	if !s.Group.Leads() {
		return nil, errLeadsElsewhere
	}
	l, err := newListing(r, caller)
	if err == nil {
		err = s.page(ctx, l)
	}
	if err != nil {
		return nil, err
	}
	return l.page, nil
}

// fillClients fills in who has the sessions of a page: the servers that hold their streams know.
func (s *Service) fillClients(ctx context.Context, page *clusterpb.SessionsResponse, caller coordination.Caller) {
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	members := s.Group.Log().Members()
	attached := make(map[uint64][]int) // the sessions whose streams a server has
	for i, p := range page.GetResponse().GetSessions() {
		p.Attachment = attachment(page, i)
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

// attachment names the stream that a session of a page is attached to.
func attachment(page *clusterpb.SessionsResponse, i int) string {
	if i >= len(page.GetServers()) || i >= len(page.GetStreams()) || page.GetStreams()[i] == 0 {
		return "none"
	}
	return fmt.Sprintf("%x-%x", page.GetServers()[i], page.GetStreams()[i])
}

// clientsOf asks a server who the clients of its streams are. If that remains unknown it says why.
func (s *Service) clientsOf(ctx context.Context, members raftstore.Members, server uint64,
	streams []uint64) (clients []*adminpb.SessionClient, unknown string) {
	if server == s.Group.Log().Member() {
		return s.clientsHere(streams).GetClients(), ""
	}
	answer := &clusterpb.ClientsResponse{}
	unknown = s.ask(ctx, members, server, &clusterpb.ClientsRequest{Streams: streams}, answer)
	if unknown == "" && len(answer.GetClients()) != len(streams) {
		unknown = "server " + members.NameOf(server) + " does not answer"
	}
	return answer.GetClients(), unknown
}

// ask asks another server. It returns the reason why there is no answer, "" if there is one.
func (s *Service) ask(ctx context.Context, members raftstore.Members, server uint64,
	question, answer proto.Message) (unknown string) {
	name := members.NameOf(server)
	if _, found := members.Find(server); !found {
		return fmt.Sprintf("server %s is no member any more", name)
	}
	if err := peers.Ask(ctx, s.Group.Log().Peers.Conn(server, false), question, answer); err != nil {
		s.Logger.Debug("a server did not tell what only it knows", "server", name, "error", err)
		return fmt.Sprintf("server %s does not answer", name)
	}
	return ""
}

// askAll puts a question to all members at once; here answers for this server. It returns the members by their names,
// their answers, empty or nil ones of those that did not answer, and the reasons. The answer of this server comes last
// if it is no member any more.
func askAll[Answer any](ctx context.Context, s *Service, question proto.Message,
	here func() *Answer) (members raftstore.Members, answers []*Answer, unknown []string) {
	members = s.Group.Log().Members()
	slices.SortFunc(members, func(a, b raftstore.Member) int {
		return cmp.Compare(a.DisplayName(), b.DisplayName())
	})
	answers, unknown = make([]*Answer, len(members)), make([]string, len(members))
	var asked sync.WaitGroup
	for i, m := range members {
		answers[i] = new(Answer)
		if m.ID != s.Group.Log().Member() {
			asked.Go(func() { unknown[i] = s.ask(ctx, members, m.ID, question, any(answers[i]).(proto.Message)) })
		}
	}
	own := here()
	asked.Wait()
	if i := slices.IndexFunc(members, func(m raftstore.Member) bool { return m.ID == s.Group.Log().Member() }); i >= 0 {
		answers[i] = own
	} else { // it was removed, and still knows what it has seen
		answers = append(answers, own)
	}
	return members, answers, slices.DeleteFunc(unknown, func(why string) bool { return why == "" })
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

// fillHolders adds the sessions of owners to a page, and their clients. The page is good without those that are not
// known in time.
func (s *Service) fillHolders(ctx context.Context, page *adminpb.Page, owners *clusterpb.HoldersRequest,
	caller coordination.Caller) {
	if len(owners.GetNodes()) == 0 {
		return
	}
	asking, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	found, err := s.askLeader(asking, owners, func(ctx context.Context) (*clusterpb.SessionsResponse, error) {
		return s.holdersHere(ctx, owners)
	})
	if err != nil {
		s.Logger.Debug("the leader did not tell who holds locks", "error", err)
		return
	}
	s.fillClients(ctx, found, caller)
	page.Holders = found.GetResponse().GetSessions()
}

// holdersHere returns sessions as the leader knows them. Errors: errLeadsElsewhere, those for clients.
func (s *Service) holdersHere(ctx context.Context, r *clusterpb.HoldersRequest) (*clusterpb.SessionsResponse, error) {
	found, err := group.InspectSessionsOf(ctx, s.Group, r.GetNodes(), r.GetSessions())
	switch {
	case err != nil:
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	case len(found.Standings) < len(found.Sessions):
		return nil, errLeadsElsewhere
	}
	page := &clusterpb.SessionsResponse{Response: &adminpb.Page{}}
	for i := range found.Sessions {
		addSession(page, &found.Sessions[i], &found.Standings[i])
	}
	return page, nil
}
