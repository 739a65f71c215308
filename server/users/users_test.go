package users

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/server/auth"
)

// TestRemoteCallers are from elsewhere: what loopback callers may do without a name, they may not.
func TestRemoteCallers(t *testing.T) {
	for _, required := range []bool{false, true} {
		s := &Service{Auth: &auth.Authenticator{Required: required}}
		if _, err := s.manager(t.Context()); !errors.Is(err, errNotAdministrator) {
			t.Errorf("auth %t: got %v", required, err)
		}
		by, err := s.manager(auth.With(t.Context(), &auth.Identity{Name: "alice"}))
		if err != nil || !by.Enforced {
			t.Errorf("auth %t, with a name: got %+v, %v", required, by, err)
		}
	}
}
