package wire

import (
	"testing"

	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	_ "github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Every request of the three services that has a path in the tree is resolved. A Session's first message is resolved
// by its stream.
func TestEveryPathIsResolved(t *testing.T) {
	found := 0
	resolved := func(m protoreflect.MessageDescriptor) {
		for _, name := range []protoreflect.Name{"path", "coordination_node_path"} {
			field := m.Fields().ByName(name)
			if field == nil {
				continue
			}
			typ, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName())
			if err != nil {
				t.Fatal(err)
			}
			request := typ.New()
			request.Set(field, protoreflect.ValueOfString("dir/n"))
			ResolvePath(request.Interface(), "/local")
			if got := request.Get(field).String(); got != "/local/dir/n" {
				t.Errorf("%s: the path is %q", m.FullName(), got)
			}
			found++
		}
	}
	for _, service := range []protoreflect.FullName{"Ydb.Coordination.V1.CoordinationService",
		"Ydb.Scheme.V1.SchemeService", "Ydb.RateLimiter.V1.RateLimiterService"} {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(service)
		if err != nil {
			t.Fatal(err)
		}
		methods := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			resolved(methods.Get(i).Input())
		}
	}
	if found != 15 {
		t.Errorf("%d requests have a path", found)
	}
	ResolvePath((proto.Message)(nil), "/local")
}
