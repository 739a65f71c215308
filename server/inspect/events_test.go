package inspect

import (
	"testing"

	"github.com/coordd/coordd/server/adminpb"
)

// TestUserIsShown: docs/operations.md: "Addresses, users and reasons are for administrators and for the client's
// own user". bob, who may read rows, sees who killed a session, who changed data, and who deleted a semaphore.
func TestUserIsShown(t *testing.T) {
	for _, kind := range []adminpb.Event_Kind{adminpb.Event_SESSION_ENDED, adminpb.Event_DATA_CHANGED,
		adminpb.Event_SEMAPHORE_DELETED} {
		e := &adminpb.Event{Kind: kind, Node: 1, User: "root"}
		if redact(e, "bob", false); e.GetUser() != "" {
			t.Errorf("bob sees that %v was by %q", kind, e.GetUser())
		}
	}
}
