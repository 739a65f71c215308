package services

import (
	"context"
	"fmt"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/group"
	"github.com/coordd/coordd/server/wire"
)

// Scheme serves Ydb.Scheme.V1.SchemeService (surface.md §4).
type Scheme struct {
	Ydb_Scheme_V1.UnimplementedSchemeServiceServer
	*calls.Runner
}

// MakeDirectory makes a directory and its missing parents.
func (s Scheme) MakeDirectory(ctx context.Context,
	r *Ydb_Scheme.MakeDirectoryRequest) (*Ydb_Scheme.MakeDirectoryResponse, error) {
	databaseName, sent := calls.Database(ctx)
	path, answer := scheme.SplitInDatabase(r.GetPath(), databaseName, sent)
	op, err := s.Command(ctx, r.GetOperationParams(), answer, func(call coordination.CallID) coordination.Command {
		return &coordination.MakeDirectory{CallID: call, Caller: s.Caller(ctx), Path: path,
			Owner: calls.OwnerFor(ctx), StampMillis: s.Group.Shell().WallMillis()}
	})
	return &Ydb_Scheme.MakeDirectoryResponse{Operation: op}, err
}

// RemoveDirectory removes an empty directory.
func (s Scheme) RemoveDirectory(ctx context.Context,
	r *Ydb_Scheme.RemoveDirectoryRequest) (*Ydb_Scheme.RemoveDirectoryResponse, error) {
	path, answer := scheme.SplitAtLastSlash(r.GetPath())
	op, err := s.Command(ctx, r.GetOperationParams(), answer, func(call coordination.CallID) coordination.Command {
		return &coordination.RemoveDirectory{CallID: call, Caller: s.Caller(ctx), Path: path}
	})
	return &Ydb_Scheme.RemoveDirectoryResponse{Operation: op}, err
}

// ListDirectory describes a path and what is directly below it.
func (s Scheme) ListDirectory(ctx context.Context,
	r *Ydb_Scheme.ListDirectoryRequest) (*Ydb_Scheme.ListDirectoryResponse, error) {
	op, err := s.Operate(ctx, r.GetOperationParams(),
		func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
			list, answer, err := s.Group.List(ctx, s.Caller(ctx), scheme.SplitLoose(r.GetPath()))
			if err != nil || !answer.OK() {
				return nil, answer, err
			}
			return s.Packed(ctx, answer, func() proto.Message {
				result := &Ydb_Scheme.ListDirectoryResult{Self: wire.Self(list.Lineage)}
				for _, child := range list.Children {
					result.Children = append(result.Children, wire.Shown(child))
				}
				return result
			})
		})
	return &Ydb_Scheme.ListDirectoryResponse{Operation: op}, err
}

// DescribePath describes a path.
func (s Scheme) DescribePath(ctx context.Context,
	r *Ydb_Scheme.DescribePathRequest) (*Ydb_Scheme.DescribePathResponse, error) {
	op, err := s.Operate(ctx, r.GetOperationParams(),
		func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
			path := scheme.SplitLoose(r.GetPath())
			d, answer, err := s.Group.Describe(ctx, s.Caller(ctx), path,
				func(m *coordination.Machine) (d group.Described) {
					d.Lineage, d.Outcome = m.Tree().EntryToDescribe(path)
					return d
				})
			if err != nil || !answer.OK() {
				return nil, answer, err
			}
			return s.Packed(ctx, answer,
				func() proto.Message { return &Ydb_Scheme.DescribePathResult{Self: wire.Self(d.Lineage)} })
		})
	return &Ydb_Scheme.DescribePathResponse{Operation: op}, err
}

// ModifyPermissions changes the owner and the explicit permissions of a path.
func (s Scheme) ModifyPermissions(ctx context.Context,
	r *Ydb_Scheme.ModifyPermissionsRequest) (*Ydb_Scheme.ModifyPermissionsResponse, error) {
	path, answer := scheme.SplitAtLastSlash(r.GetPath())
	change := wire.PermissionsChange(r)
	if answer.OK() {
		answer = checkSubjects(change.Actions)
	}
	op, err := s.Command(ctx, r.GetOperationParams(), answer, func(call coordination.CallID) coordination.Command {
		return &coordination.ModifyPermissions{CallID: call, Caller: s.Caller(ctx), Path: path,
			Change: change}
	})
	return &Ydb_Scheme.ModifyPermissionsResponse{Operation: op}, err
}

// MaxSubjectBytes bounds a subject of permissions. No entry has room for a longer one, so that all it could
// do is to make the log larger.
var MaxSubjectBytes = scheme.DefaultLimits().ACLBytes

func checkSubjects(actions []scheme.Action) outcome.Outcome {
	for _, a := range actions {
		if len(a.Subject) > MaxSubjectBytes {
			return outcome.Because(outcome.BadRequest, fmt.Sprintf("Subject of permissions is too long: %d bytes, limit: %d",
				len(a.Subject), MaxSubjectBytes))
		}
	}
	return outcome.Done()
}
