package server

import (
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/wire"
)

// TestTextsAreUTF8: no request brings a text that cannot be encoded later, on the relay, in an event or in an answer.
// The commands of the log need no check of their own: a text in them comes from a request, or from a token, a
// certificate or a header (auth.TestTokenFile, auth.TestCertificateIdentity, TestDatabaseHeaderIsUTF8).
func TestTextsAreUTF8(t *testing.T) {
	s, _ := startTest(t, nil)
	texts := 0
	for name, method := range servedMethods(t, s) {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(method.Input().FullName())
		if err != nil {
			t.Fatal(err)
		}
		for field, b := range wrongTexts(method.Input(), 0) {
			texts++
			err := proto.Unmarshal(b, kind.New().Interface())
			if err != nil && name == sessionMethod {
				err = new(wire.ClientMessage).Decode(b)
			}
			if err == nil {
				t.Errorf("%s takes a %s that is not UTF-8", name, field)
			}
		}
	}
	if texts < 50 {
		t.Errorf("only %d texts were tried", texts)
	}
}

// wrongTexts returns encodings of a message each of which has one text that is not UTF-8, by the name of its field.
// Messages nested deeper than four levels are left out.
func wrongTexts(m protoreflect.MessageDescriptor, depth int) map[protoreflect.FullName][]byte {
	wrong := make(map[protoreflect.FullName][]byte)
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		tag := protowire.AppendTag(nil, field.Number(), protowire.BytesType)
		switch inner := field.Message(); {
		case field.Kind() == protoreflect.StringKind:
			wrong[field.FullName()] = protowire.AppendString(tag, "m\xfcller")
		case inner != nil && depth < 4:
			for name, b := range wrongTexts(inner, depth+1) {
				wrong[name] = protowire.AppendBytes(tag[:len(tag):len(tag)], b)
			}
		}
	}
	return wrong
}

// TestDatabaseHeaderIsUTF8: relative paths are resolved by the header, which HTTP/2 and its percent-encoding let be
// any bytes.
func TestDatabaseHeaderIsUTF8(t *testing.T) {
	for _, header := range []string{"/lo%ffcal", "/lo\xffcal", "%/lo\xffcal"} {
		got, sent := calls.Database(metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-ydb-database", header)))
		if !sent || !utf8.ValidString(got) {
			t.Errorf("%q: got %q, %v", header, got, sent)
		}
	}
}
