package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/server/adminpb"
)

// lastChange is the last change of data, as the output has it.
type lastChange struct {
	Version *uint64 `json:"version"` // null: there is none, or the server does not tell
	Changed *string `json:"changed"`
	Author  *string `json:"author"` // null: nobody, unknown, or not shown to this caller
}

func showVersion(v *adminpb.Version) lastChange {
	if v == nil {
		return lastChange{}
	}
	shown := lastChange{Version: &v.Version, Changed: timeShown(v.GetChangedMillis())}
	if v.GetAuthor() != "" {
		shown.Author = &v.Author
	}
	return shown
}

// String is one line for a version that is known.
func (v *lastChange) String() string {
	text := fmt.Sprint(*v.Version)
	if v.Changed != nil {
		text += ", since " + *v.Changed
	}
	if v.Author != nil {
		text += fmt.Sprintf(", by %q", *v.Author)
	}
	return text
}

// versions asks for the version of a semaphore's data, which is missing if the semaphore is ephemeral.
func (c *caller) versions(ctx context.Context, node, name string, former bool) (*adminpb.VersionsResponse, error) {
	answer := new(adminpb.VersionsResponse)
	err := c.inspect(ctx, adminpb.Inspect_Versions_FullMethodName,
		&adminpb.VersionsRequest{Path: c.path(node), Name: []byte(name), Former: former}, answer)
	return answer, err
}

// setVersion sets a configuration that has the expected version.
func (c *caller) setVersion(ctx context.Context, node, name string, data []byte, expected uint64) error {
	err := c.Invoke(ctx, adminpb.Inspect_UpdateData_FullMethodName, &adminpb.UpdateDataRequest{Path: c.path(node),
		Name: []byte(name), Data: data, Expected: expected}, new(adminpb.UpdateDataResponse))
	if status.Code(err) == codes.Aborted {
		return exit.With(exit.Conflict, fmt.Errorf("%q: %w", name, plain(err)))
	}
	return c.inspectError(err)
}
