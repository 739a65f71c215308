package server

import (
	"context"
	"fmt"

	"github.com/coordd/coordd/raftstore"
)

// Leads tells whether this server leads and serves as the leader.
func (s *Server) Leads() bool { return s.streams.localLink() != nil }

// HandOver gives the leadership to the member of that name and returns once this server does not lead any more. The
// new leader may serve a little later. Errors: raftstore.ErrNotMember, raftstore.ErrNotLeader, that of ctx.
func (s *Server) HandOver(ctx context.Context, name string) error {
	for _, m := range s.store.Members() {
		if m.Name == name {
			return s.store.TransferLeader(ctx, m.ID)
		}
	}
	return fmt.Errorf("hand over to %q: %w", name, raftstore.ErrNotMember)
}
