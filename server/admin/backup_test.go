package admin

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/raftstore"
)

// A snapshot that a received checkpoint has ended says so, and what to do.
func TestOvertakenSnapshot(t *testing.T) {
	err := backupError(t.Context(), fmt.Errorf("backup: %w", raftstore.ErrOvertaken))
	if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "overtaken") {
		t.Errorf("the client gets %v", err)
	}
}
