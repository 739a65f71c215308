package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// limiterRequest reads a call about the resources of the coordination node at path. The word behind that is
// the resource.
func limiterRequest(verb, path string, f *fields) (proto.Message, error) {
	resource := f.path(f.word())
	params := operationParams(f)
	switch verb {
	case "create":
		return &Ydb_RateLimiter.CreateResourceRequest{OperationParams: params, CoordinationNodePath: path,
			Resource: resourceOf(resource, f)}, nil
	case "alter":
		return &Ydb_RateLimiter.AlterResourceRequest{OperationParams: params, CoordinationNodePath: path,
			Resource: resourceOf(resource, f)}, nil
	case "drop":
		return &Ydb_RateLimiter.DropResourceRequest{OperationParams: params, CoordinationNodePath: path,
			ResourcePath: resource}, nil
	case "describe":
		return &Ydb_RateLimiter.DescribeResourceRequest{OperationParams: params, CoordinationNodePath: path,
			ResourcePath: resource}, nil
	case "ls":
		return &Ydb_RateLimiter.ListResourcesRequest{OperationParams: params, CoordinationNodePath: path,
			ResourcePath: resource, Recursive: f.flag("recursive")}, nil
	case "acquire":
		r := &Ydb_RateLimiter.AcquireResourceRequest{OperationParams: params, CoordinationNodePath: path,
			ResourcePath: resource}
		if _, found := f.unread["used"]; found {
			r.Units = &Ydb_RateLimiter.AcquireResourceRequest_Used{Used: f.number("used", 0)}
		}
		if _, found := f.unread["required"]; found {
			r.Units = &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: f.number("required", 0)}
		}
		return r, nil
	}
	return nil, fmt.Errorf("unknown call limiter %s", verb)
}

// operationParams reads the times of a call, or returns nil.
func operationParams(f *fields) *Ydb_Operations.OperationParams {
	duration := func(key string) *durationpb.Duration {
		if _, found := f.unread[key]; !found {
			return nil
		}
		return durationpb.New(time.Duration(f.millis(key, 0)) * time.Millisecond)
	}
	timeout, cancelAfter := duration("operation_timeout"), duration("cancel_after")
	if timeout == nil && cancelAfter == nil {
		return nil
	}
	return &Ydb_Operations.OperationParams{OperationTimeout: timeout, CancelAfter: cancelAfter}
}

// resourceOf reads the properties of a resource. more and more_settings are fields that the schema of the
// tests does not have.
func resourceOf(path string, f *fields) *Ydb_RateLimiter.Resource {
	r := &Ydb_RateLimiter.Resource{ResourcePath: path}
	if !f.flag("untyped") {
		s := &Ydb_RateLimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: f.real("rate"),
			MaxBurstSizeCoefficient: f.real("burst"), PrefetchCoefficient: f.real("prefetch"),
			PrefetchWatermark: f.real("watermark")}
		s.ProtoReflect().SetUnknown([]byte(f.text("more_settings")))
		r.Type = &Ydb_RateLimiter.Resource_HierarchicalDrr{HierarchicalDrr: s}
	}
	r.ProtoReflect().SetUnknown([]byte(f.text("more")))
	return r
}

// real is a number that need not be whole; inf and nan are some, too.
func (f *fields) real(key string) float64 {
	value, found := f.take(key)
	if !found {
		return 0
	}
	v, err := strconv.ParseFloat(value, 64)
	f.fail(err)
	return v
}

func showResource(r *Ydb_RateLimiter.Resource) string {
	text := "\n  resource " + showName(r.GetResourcePath())
	s := r.GetHierarchicalDrr()
	if s == nil {
		text += " untyped"
	}
	for _, field := range []struct {
		name  string
		value float64
	}{{"rate", s.GetMaxUnitsPerSecond()}, {"burst", s.GetMaxBurstSizeCoefficient()},
		{"prefetch", s.GetPrefetchCoefficient()},
		{"watermark", s.GetPrefetchWatermark()}} {
		if field.value != 0 {
			text += fmt.Sprintf(" %s=%s", field.name, strconv.FormatFloat(field.value, 'g', -1, 64))
		}
	}
	for _, field := range []struct {
		name string
		raw  []byte
	}{{"more_settings", s.ProtoReflect().GetUnknown()}, {"more", r.ProtoReflect().GetUnknown()}} {
		if len(field.raw) > 0 {
			text += fmt.Sprintf(" %s=0x%x", field.name, field.raw)
		}
	}
	return text
}

func showResources(paths []string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(slices.Values(paths)) {
		b.WriteString("\n  resource " + showName(path))
	}
	return b.String()
}
