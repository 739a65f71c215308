package wire

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/coordd/coordd/coordination"
)

// ResourceProperties translates the properties of a resource as they were sent; false if they are missing.
func ResourceProperties(r *Ydb_RateLimiter.Resource) (coordination.ResourceProperties, bool) {
	s := r.GetHierarchicalDrr()
	if s == nil {
		return coordination.ResourceProperties{}, false
	}
	return coordination.ResourceProperties{
		MaxUnitsPerSecond:       coordination.RealOf(s.GetMaxUnitsPerSecond()),
		MaxBurstSizeCoefficient: coordination.RealOf(s.GetMaxBurstSizeCoefficient()),
		PrefetchCoefficient:     coordination.RealOf(s.GetPrefetchCoefficient()),
		PrefetchWatermark:       coordination.RealOf(s.GetPrefetchWatermark()),
		MoreSettings:            unknownFields(s.ProtoReflect().GetUnknown()),
		More:                    unknownFields(r.ProtoReflect().GetUnknown()),
	}, true
}

// Resource translates a resource with its own properties.
func Resource(path string, p coordination.ResourceProperties) *Ydb_RateLimiter.Resource {
	settings := &Ydb_RateLimiter.HierarchicalDrrSettings{
		MaxUnitsPerSecond:       p.MaxUnitsPerSecond.Float(),
		MaxBurstSizeCoefficient: p.MaxBurstSizeCoefficient.Float(),
		PrefetchCoefficient:     p.PrefetchCoefficient.Float(),
		PrefetchWatermark:       p.PrefetchWatermark.Float(),
	}
	settings.ProtoReflect().SetUnknown(p.MoreSettings)
	r := &Ydb_RateLimiter.Resource{ResourcePath: path,
		Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{HierarchicalDrr: settings}}
	r.ProtoReflect().SetUnknown(p.More)
	return r
}

// unknownFields is fields as they were sent, but in ascending order, so that the order in which a client
// writes them makes no difference. What is repeated keeps its order.
func unknownFields(raw protoreflect.RawFields) []byte {
	type field struct {
		number protowire.Number
		data   []byte
	}
	var fields []field
	for rest := []byte(raw); len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 { // it was parsed before
			return bytes.Clone(raw)
		}
		fields = append(fields, field{number, rest[:n]})
		rest = rest[n:]
	}
	slices.SortStableFunc(fields, func(a, b field) int { return cmp.Compare(a.number, b.number) })
	var sorted []byte
	for _, f := range fields {
		sorted = append(sorted, f.data...)
	}
	return sorted
}
