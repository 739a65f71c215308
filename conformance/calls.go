package conformance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// call makes a unary call and returns what to show of the answer.
func (r *Replay) call(ctx context.Context, q request) (string, error) {
	f := r.fieldsOf(q)
	service, verb := f.word(), f.word()
	path := f.path(f.word())
	database := new(r.env.Database())
	if value, found := f.take("database"); found {
		if database = new(f.path(value)); *database == "none" {
			database = nil
		}
	}
	ctx = asUser(ctx, f.text("user"))
	message, err := unaryRequest(service, verb, path, f)
	if err == nil {
		err = f.done()
	}
	if err != nil {
		return "", err
	}
	operation, err := r.env.Call(ctx, message, database)
	if err != nil {
		s, ok := status.FromError(err)
		if !ok {
			return "", err
		}
		return "gRPC " + strings.TrimPrefix(ShowEnd(s), "end "), nil
	}
	return r.hidePlace(showOperation(operation)), nil
}

func unaryRequest(service, verb, path string, f *fields) (proto.Message, error) {
	if service == "limiter" {
		return limiterRequest(verb, path, f)
	}
	switch service + " " + verb {
	case "node create":
		return &Ydb_Coordination.CreateNodeRequest{Path: path, Config: config(f)}, nil
	case "node alter":
		return &Ydb_Coordination.AlterNodeRequest{Path: path, Config: config(f)}, nil
	case "node drop":
		return &Ydb_Coordination.DropNodeRequest{Path: path}, nil
	case "node describe":
		return &Ydb_Coordination.DescribeNodeRequest{Path: path}, nil
	case "scheme mkdir":
		return &Ydb_Scheme.MakeDirectoryRequest{Path: path}, nil
	case "scheme rmdir":
		return &Ydb_Scheme.RemoveDirectoryRequest{Path: path}, nil
	case "scheme ls":
		return &Ydb_Scheme.ListDirectoryRequest{Path: path}, nil
	case "scheme describe":
		return &Ydb_Scheme.DescribePathRequest{Path: path}, nil
	case "scheme permissions":
		return permissionsRequest(path, f), nil
	}
	return nil, fmt.Errorf("unknown call %s %s", service, verb)
}

// config reads the fields of a node's config, or returns nil.
func config(f *fields) *Ydb_Coordination.Config {
	if len(f.unread) == 0 {
		return nil
	}
	c := &Ydb_Coordination.Config{
		SelfCheckPeriodMillis:    uint32(f.millis("self_check", 0)),
		SessionGracePeriodMillis: uint32(f.millis("grace", 0)),
		ReadConsistencyMode:      Ydb_Coordination.ConsistencyMode(mode(f, "read")),
		AttachConsistencyMode:    Ydb_Coordination.ConsistencyMode(mode(f, "attach")),
	}
	if value, found := f.take("counters"); found {
		number, err := strconv.Atoi(value)
		f.fail(err)
		c.RateLimiterCountersMode = Ydb_Coordination.RateLimiterCountersMode(number)
	}
	if value, found := f.take("path"); found {
		c.Path = f.path(value)
	}
	return c
}

func mode(f *fields, key string) int32 {
	switch value, _ := f.take(key); value {
	case "", "unset":
		return 0
	case "strict":
		return int32(Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_STRICT)
	case "relaxed":
		return int32(Ydb_Coordination.ConsistencyMode_CONSISTENCY_MODE_RELAXED)
	default:
		number, err := strconv.ParseInt(value, 10, 32)
		f.fail(err)
		return int32(number)
	}
}

// permissionsRequest reads one action of each kind; the protocol keeps the order of actions, and so does the
// line.
func permissionsRequest(path string, f *fields) *Ydb_Scheme.ModifyPermissionsRequest {
	m := &Ydb_Scheme.ModifyPermissionsRequest{Path: path, ClearPermissions: f.flag("clear")}
	if value, found := f.take("interrupt"); found {
		m.Inheritance = &Ydb_Scheme.ModifyPermissionsRequest_InterruptInheritance{InterruptInheritance: value == "true"}
	}
	if f.flag("unset") {
		m.Actions = append(m.Actions, &Ydb_Scheme.PermissionsAction{})
	}
	for _, key := range []string{"set", "grant", "revoke", "owner"} {
		value, found := f.take(key)
		if !found {
			continue
		}
		subject, list, _ := strings.Cut(f.path(value), ":")
		p := &Ydb_Scheme.Permissions{Subject: subject, PermissionNames: strings.Split(list, ",")}
		action := &Ydb_Scheme.PermissionsAction{}
		switch key {
		case "set":
			action.Action = &Ydb_Scheme.PermissionsAction_Set{Set: p}
		case "grant":
			action.Action = &Ydb_Scheme.PermissionsAction_Grant{Grant: p}
		case "revoke":
			action.Action = &Ydb_Scheme.PermissionsAction_Revoke{Revoke: p}
		case "owner":
			action.Action = &Ydb_Scheme.PermissionsAction_ChangeOwner{ChangeOwner: value}
		}
		m.Actions = append(m.Actions, action)
	}
	return m
}

// issueSeverity is the ordinary severity of the issues of unary calls.
const issueSeverity = 1

func showOperation(o *Ydb_Operations.Operation) string {
	text := showVerdict(o.GetStatus(), o.GetIssues(), issueSeverity)
	if !o.GetReady() {
		text += " not ready"
	}
	if o.GetId() != "" {
		text += " id=" + o.GetId()
	}
	if o.GetResult() == nil {
		return text
	}
	result, err := o.GetResult().UnmarshalNew()
	if err != nil {
		return text + " result: " + err.Error()
	}
	switch result := result.(type) {
	case *Ydb_Coordination.DescribeNodeResult:
		return text + showEntry("self", result.GetSelf(), true) + ShowConfig(result.GetConfig())
	case *Ydb_Scheme.DescribePathResult:
		return text + showEntry("self", result.GetSelf(), true)
	case *Ydb_Scheme.ListDirectoryResult:
		text += showEntry("self", result.GetSelf(), true)
		children := slices.SortedFunc(slices.Values(result.GetChildren()), func(a, b *Ydb_Scheme.Entry) int {
			return cmp.Compare(a.GetName(), b.GetName())
		})
		for _, child := range children {
			text += showEntry("child", child, false)
		}
		return text
	case *Ydb_RateLimiter.DescribeResourceResult:
		return text + showResource(result.GetResource())
	case *Ydb_RateLimiter.ListResourcesResult:
		return text + showResources(result.GetResourcePaths())
	}
	return text + " result: " + string(result.ProtoReflect().Descriptor().FullName())
}

func showEntry(kind string, e *Ydb_Scheme.Entry, full bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n  %s name=%s type=%s", kind, showName(e.GetName()), e.GetType())
	if e.GetSizeBytes() != 0 {
		fmt.Fprintf(&b, " size=%d", e.GetSizeBytes())
	}
	if full {
		fmt.Fprintf(&b, " owner=%s", e.GetOwner())
		if e.GetCreatedAt().GetPlanStep() != 0 && e.GetCreatedAt().GetTxId() != 0 {
			b.WriteString(" created")
		}
	}
	showPermissions(&b, "permissions", e.GetPermissions())
	showPermissions(&b, "effective", e.GetEffectivePermissions())
	return b.String()
}

func showPermissions(b *strings.Builder, kind string, list []*Ydb_Scheme.Permissions) {
	for _, p := range list {
		fmt.Fprintf(b, "\n  %s %s: %s", kind, p.GetSubject(),
			strings.Join(slices.Sorted(slices.Values(p.GetPermissionNames())), " "))
	}
}

func ShowConfig(c *Ydb_Coordination.Config) string {
	if c == nil {
		return "\n  no config"
	}
	text := "\n  config"
	if c.GetPath() != "" {
		text += " path=" + c.GetPath()
	}
	for _, field := range []struct {
		name  string
		value uint32
	}{{"self_check", c.GetSelfCheckPeriodMillis()}, {"grace", c.GetSessionGracePeriodMillis()}} {
		if field.value != 0 {
			text += fmt.Sprintf(" %s=%d", field.name, field.value)
		}
	}
	for _, field := range []struct {
		name  string
		value int32
	}{{"read", int32(c.GetReadConsistencyMode())}, {"attach", int32(c.GetAttachConsistencyMode())}} {
		switch field.value {
		case 0:
		case 1:
			text += " " + field.name + "=strict"
		case 2:
			text += " " + field.name + "=relaxed"
		default:
			text += fmt.Sprintf(" %s=%d", field.name, field.value)
		}
	}
	if counters := c.GetRateLimiterCountersMode(); counters != 0 {
		text += fmt.Sprintf(" counters=%d", counters)
	}
	return text
}

// succeeded is for the calls that prepare and clean up.
func succeeded(o *Ydb_Operations.Operation, err error) error {
	if err == nil && o.GetStatus() != Ydb.StatusIds_SUCCESS {
		err = fmt.Errorf("%s", showOperation(o))
	}
	return err
}

func makeDirectory(path string) *Ydb_Scheme.MakeDirectoryRequest {
	return &Ydb_Scheme.MakeDirectoryRequest{Path: path}
}
