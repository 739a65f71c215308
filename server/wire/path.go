package wire

import (
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"

	"github.com/coordd/coordd/scheme"
)

// ResolvePath makes the path of a request that is relative to the database of its call absolute (surface.md §3.1).
func ResolvePath(request any, database string) {
	if path := pathOf(request); path != nil {
		*path = scheme.InDatabase(*path, database)
	}
}

// pathOf returns the path in the tree that a call's request names, nil if it names none.
func pathOf(request any) *string {
	switch r := request.(type) {
	case *Ydb_Coordination.CreateNodeRequest:
		return &r.Path
	case *Ydb_Coordination.AlterNodeRequest:
		return &r.Path
	case *Ydb_Coordination.DropNodeRequest:
		return &r.Path
	case *Ydb_Coordination.DescribeNodeRequest:
		return &r.Path
	case *Ydb_Scheme.MakeDirectoryRequest:
		return &r.Path
	case *Ydb_Scheme.RemoveDirectoryRequest:
		return &r.Path
	case *Ydb_Scheme.ListDirectoryRequest:
		return &r.Path
	case *Ydb_Scheme.DescribePathRequest:
		return &r.Path
	case *Ydb_Scheme.ModifyPermissionsRequest:
		return &r.Path
	case *Ydb_RateLimiter.CreateResourceRequest:
		return &r.CoordinationNodePath
	case *Ydb_RateLimiter.AlterResourceRequest:
		return &r.CoordinationNodePath
	case *Ydb_RateLimiter.DropResourceRequest:
		return &r.CoordinationNodePath
	case *Ydb_RateLimiter.ListResourcesRequest:
		return &r.CoordinationNodePath
	case *Ydb_RateLimiter.DescribeResourceRequest:
		return &r.CoordinationNodePath
	case *Ydb_RateLimiter.AcquireResourceRequest:
		return &r.CoordinationNodePath
	}
	return nil
}
