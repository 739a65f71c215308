package conformance

import (
	"cmp"
	"context"
	"fmt"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/wire"
)

// stampMillis is the time of day at which the pure level makes everything.
const stampMillis = 1_700_000_000_000

// Call implements Environment.
func (e *pureEnvironment) Call(ctx context.Context, request proto.Message,
	database *string) (*Ydb_Operations.Operation, error) {
	if database != nil {
		request = proto.Clone(request)
		wire.ResolvePath(request, *database)
	}
	var result proto.Message
	var answer outcome.Outcome
	caller := pureCaller(userOf(ctx))
	tree := e.world.Machine().Tree()
	switch r := request.(type) {
	case *Ydb_Coordination.DescribeNodeRequest:
		var lineage scheme.Lineage
		if answer = e.mayDescribe(caller, r.GetPath()); !answer.OK() {
			break
		}
		if lineage, answer = tree.NodeToDescribe(scheme.SplitLoose(r.GetPath())); answer.OK() {
			config, _ := e.world.Machine().Config(lineage[0].Node)
			result = &Ydb_Coordination.DescribeNodeResult{Self: wire.Self(lineage),
				Config: wire.Config(config)}
		}
	case *Ydb_Scheme.DescribePathRequest:
		var lineage scheme.Lineage
		if answer = e.mayDescribe(caller, r.GetPath()); !answer.OK() {
			break
		}
		if lineage, answer = tree.EntryToDescribe(scheme.SplitLoose(r.GetPath())); answer.OK() {
			result = &Ydb_Scheme.DescribePathResult{Self: wire.Self(lineage)}
		}
	case *Ydb_Scheme.ListDirectoryRequest:
		var lineage scheme.Lineage
		if answer = e.mayDescribe(caller, r.GetPath()); !answer.OK() {
			break
		}
		if lineage, answer = tree.EntryToDescribe(scheme.SplitLoose(r.GetPath())); answer.OK() {
			list := &Ydb_Scheme.ListDirectoryResult{Self: wire.Self(lineage)}
			for _, child := range tree.Children(scheme.SplitLoose(r.GetPath())) {
				list.Children = append(list.Children, wire.Shown(child))
			}
			result = list
		}
	case *Ydb_RateLimiter.DescribeResourceRequest:
		var properties coordination.ResourceProperties
		if answer = checkLimiter(r, r.GetResourcePath(), database); !answer.OK() {
			break
		}
		path := scheme.SplitLoose(r.GetCoordinationNodePath())
		if properties, answer = e.world.Machine().Resources().Describe(caller, path,
			r.GetResourcePath()); answer.OK() {
			result = &Ydb_RateLimiter.DescribeResourceResult{Resource: wire.Resource(r.GetResourcePath(),
				properties)}
		}
	case *Ydb_RateLimiter.ListResourcesRequest:
		var page coordination.ResourcePage
		if answer = checkLimiter(r, r.GetResourcePath(), database); !answer.OK() {
			break
		}
		listing := coordination.ResourceListing{Path: scheme.SplitLoose(r.GetCoordinationNodePath()),
			Resource: r.GetResourcePath(), Recursive: r.GetRecursive()}
		if page, answer = e.world.Machine().Resources().List(caller, listing, 0,
			coordination.MaxResources); answer.OK() {
			result = &Ydb_RateLimiter.ListResourcesResult{ResourcePaths: page.Paths}
		}
	case ofLimiter:
		var err error
		if answer, err = e.limiterCommand(r, database, caller); err != nil {
			return nil, err
		}
	default:
		var err error
		if answer, err = e.command(request, database, caller); err != nil {
			return nil, err
		}
	}
	operation := &Ydb_Operations.Operation{Ready: true, Status: Ydb.StatusIds_StatusCode(answer.Status),
		Issues: wire.Issues(answer.Issues)}
	if result == nil {
		return operation, nil
	}
	packed, err := anypb.New(result)
	operation.Result = packed
	return operation, err
}

// pureCaller returns a user, or a caller that may do everything.
func pureCaller(user string) coordination.Caller {
	return coordination.Caller{Subject: user, Enforced: user != ""}
}

func (e *pureEnvironment) mayDescribe(caller coordination.Caller, path string) outcome.Outcome {
	m := e.world.Machine()
	return m.Tree().Authorize(scheme.SplitLoose(path), scheme.DescribeSchema, m.Subject(caller))
}

// command carries out a call that changes something.
func (e *pureEnvironment) command(request proto.Message, database *string,
	caller coordination.Caller) (outcome.Outcome, error) {
	path, answer := splitPath(request, database)
	if !answer.OK() {
		return answer, nil
	}
	owner := cmp.Or(caller.Subject, scheme.RootOwner)
	return e.begin(func(call coordination.CallID) coordination.Command {
		switch r := request.(type) {
		case *Ydb_Coordination.CreateNodeRequest:
			return &coordination.CreateNode{CallID: call, Caller: caller, Path: path,
				Config: wire.NodeConfig(r.GetConfig()), SetsPath: r.GetConfig().GetPath() != "", Owner: owner,
				StampMillis: stampMillis}
		case *Ydb_Coordination.AlterNodeRequest:
			return &coordination.AlterNode{CallID: call, Caller: caller, Path: path,
				Config: wire.NodeConfig(r.GetConfig()), SetsPath: r.GetConfig().GetPath() != ""}
		case *Ydb_Coordination.DropNodeRequest:
			return &coordination.DropNode{CallID: call, Caller: caller, Path: path}
		case *Ydb_Scheme.MakeDirectoryRequest:
			return &coordination.MakeDirectory{CallID: call, Caller: caller, Path: path, Owner: owner,
				StampMillis: stampMillis}
		case *Ydb_Scheme.RemoveDirectoryRequest:
			return &coordination.RemoveDirectory{CallID: call, Caller: caller, Path: path}
		case *Ydb_Scheme.ModifyPermissionsRequest:
			return &coordination.ModifyPermissions{CallID: call, Caller: caller, Path: path,
				Change: wire.PermissionsChange(r)}
		}
		panic(fmt.Sprintf("conformance: no such call: %T", request))
	})
}

// splitPath reads the path as each call does (surface.md §3.1).
func splitPath(request proto.Message, database *string) (scheme.Path, outcome.Outcome) {
	path := request.(interface{ GetPath() string }).GetPath()
	switch request.(type) {
	case *Ydb_Coordination.CreateNodeRequest, *Ydb_Scheme.MakeDirectoryRequest:
		if database == nil {
			return scheme.SplitInDatabase(path, "", false)
		}
		return scheme.SplitInDatabase(path, *database, true)
	}
	return scheme.SplitAtLastSlash(path)
}
