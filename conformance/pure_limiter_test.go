package conformance

import (
	"fmt"
	"strings"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/wire"
)

// ofLimiter is a call about the resources of a coordination node.
type ofLimiter interface {
	proto.Message
	GetCoordinationNodePath() string
}

// checkLimiterPaths makes the checks of every such call that come before those of the node.
func checkLimiterPaths(r ofLimiter, resource string, database *string) outcome.Outcome {
	path, current := r.GetCoordinationNodePath(), ""
	if database != nil {
		current = *database
	}
	switch {
	case !strings.HasPrefix(path, current):
		return outcome.Because(outcome.BadRequest,
			fmt.Sprintf("Coordination node path: %s does not belong to current database: %s.", path, current))
	case !coordination.CanonicalResourcePath(resource):
		return outcome.Because(outcome.BadRequest, "Bad resource path.")
	}
	return outcome.Done()
}

// checkLimiterNode is the check of the node's path that follows.
func checkLimiterNode(r ofLimiter) outcome.Outcome {
	if r.GetCoordinationNodePath() == "" {
		return outcome.Because(outcome.BadRequest, "Empty path.")
	}
	return outcome.Done()
}

// checkLimiter is both.
func checkLimiter(r ofLimiter, resource string, database *string) outcome.Outcome {
	if answer := checkLimiterPaths(r, resource, database); !answer.OK() {
		return answer
	}
	return checkLimiterNode(r)
}

// limiterCommand carries out a call about resources that changes something.
func (e *pureEnvironment) limiterCommand(request ofLimiter, database *string,
	caller coordination.Caller) (outcome.Outcome, error) {
	var resource *Ydb_RateLimiter.Resource
	path := ""
	switch r := request.(type) {
	case *Ydb_RateLimiter.CreateResourceRequest:
		resource, path = r.GetResource(), r.GetResource().GetResourcePath()
	case *Ydb_RateLimiter.AlterResourceRequest:
		resource, path = r.GetResource(), r.GetResource().GetResourcePath()
	case *Ydb_RateLimiter.DropResourceRequest:
		path = r.GetResourcePath()
	default:
		return outcome.Outcome{}, fmt.Errorf("no such call: %T", request)
	}
	answer := checkLimiterPaths(request, path, database)
	properties, are := wire.ResourceProperties(resource)
	_, drops := request.(*Ydb_RateLimiter.DropResourceRequest)
	switch {
	case !answer.OK():
		return answer, nil
	case !drops && !are:
		return outcome.Because(outcome.BadRequest, "No resource properties."), nil
	}
	if answer := checkLimiterNode(request); !answer.OK() {
		return answer, nil
	}
	node := scheme.SplitLoose(request.GetCoordinationNodePath())
	return e.begin(func(call coordination.CallID) coordination.Command {
		switch request.(type) {
		case *Ydb_RateLimiter.CreateResourceRequest:
			return &coordination.CreateResource{CallID: call, Caller: caller, Path: node, Resource: path,
				ResourceProperties: properties}
		case *Ydb_RateLimiter.AlterResourceRequest:
			return &coordination.AlterResource{CallID: call, Caller: caller, Path: node, Resource: path,
				ResourceProperties: properties}
		}
		return &coordination.DropResource{CallID: call, Caller: caller, Path: node, Resource: path}
	})
}
