package wire

import (
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
)

// NodeConfig translates a configuration as it was sent.
func NodeConfig(c *Ydb_Coordination.Config) coordination.NodeConfig {
	return coordination.NodeConfig{
		SelfCheckPeriodMillis:    c.GetSelfCheckPeriodMillis(),
		SessionGracePeriodMillis: c.GetSessionGracePeriodMillis(),
		ReadConsistencyMode:      int32(c.GetReadConsistencyMode()),
		AttachConsistencyMode:    int32(c.GetAttachConsistencyMode()),
		RateLimiterCountersMode:  int32(c.GetRateLimiterCountersMode()),
	}
}

// Config translates a stored configuration.
func Config(c coordination.NodeConfig) *Ydb_Coordination.Config {
	return &Ydb_Coordination.Config{
		SelfCheckPeriodMillis:    c.SelfCheckPeriodMillis,
		SessionGracePeriodMillis: c.SessionGracePeriodMillis,
		ReadConsistencyMode:      Ydb_Coordination.ConsistencyMode(c.ReadConsistencyMode),
		AttachConsistencyMode:    Ydb_Coordination.ConsistencyMode(c.AttachConsistencyMode),
		RateLimiterCountersMode:  Ydb_Coordination.RateLimiterCountersMode(c.RateLimiterCountersMode),
	}
}

// PermissionsChange translates a ModifyPermissions.
func PermissionsChange(r *Ydb_Scheme.ModifyPermissionsRequest) scheme.PermissionsChange {
	change := scheme.PermissionsChange{Clear: r.GetClearPermissions()}
	if inheritance, ok := r.GetInheritance().(*Ydb_Scheme.ModifyPermissionsRequest_InterruptInheritance); ok {
		change.Interrupt = &inheritance.InterruptInheritance
	}
	for _, action := range r.GetActions() {
		var a scheme.Action
		named := func(kind scheme.ActionKind, p *Ydb_Scheme.Permissions) {
			a = scheme.Action{Kind: kind, Subject: p.GetSubject(), Names: p.GetPermissionNames()}
		}
		switch arm := action.GetAction().(type) {
		case *Ydb_Scheme.PermissionsAction_Grant:
			named(scheme.Grant, arm.Grant)
		case *Ydb_Scheme.PermissionsAction_Revoke:
			named(scheme.Revoke, arm.Revoke)
		case *Ydb_Scheme.PermissionsAction_Set:
			named(scheme.Set, arm.Set)
		case *Ydb_Scheme.PermissionsAction_ChangeOwner:
			a = scheme.Action{Kind: scheme.ChangeOwner, Subject: arm.ChangeOwner}
		}
		change.Actions = append(change.Actions, a)
	}
	return change
}

// Self is the first entry of a lineage as it describes itself, with permissions.
func Self(lineage scheme.Lineage) *Ydb_Scheme.Entry {
	entry := Shown(lineage[0])
	entry.Permissions = permissions(lineage[0].Permissions)
	entry.EffectivePermissions = permissions(lineage.EffectivePermissions())
	return entry
}

// Shown is an entry as its directory lists it.
func Shown(e scheme.Entry) *Ydb_Scheme.Entry {
	return &Ydb_Scheme.Entry{
		Name: e.Name, Owner: e.Owner, Type: Ydb_Scheme.Entry_Type(e.Kind),
		CreatedAt: &Ydb.VirtualTimestamp{PlanStep: e.Created.PlanStep, TxId: e.Created.TxID},
	}
}

func permissions(list []scheme.Permission) []*Ydb_Scheme.Permissions {
	var out []*Ydb_Scheme.Permissions
	for _, p := range list {
		out = append(out, &Ydb_Scheme.Permissions{Subject: p.Subject, PermissionNames: p.Names})
	}
	return out
}
