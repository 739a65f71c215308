package codec

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec/internal/logpb"
)

// This file compares the codec with the code that protoc-gen-go makes of the same schema: the same bytes for
// the same values, field by field, and the same values from the same bytes.

var canonical = proto.MarshalOptions{Deterministic: true}

// rowMessage is the message that the values of a kind of rows have.
func rowMessage(kind coordination.RowKind) proto.Message {
	return map[coordination.RowKind]proto.Message{
		coordination.RowMachine: new(logpb.MachineRow), coordination.RowPath: new(logpb.PathRow),
		coordination.RowNode: new(logpb.NodeRow), coordination.RowSession: new(logpb.SessionRow),
		coordination.RowSemaphore: new(logpb.SemaphoreRow), coordination.RowLink: new(logpb.LinkRow),
		coordination.RowUser: new(logpb.UserRow), coordination.RowSigningKey: new(logpb.SigningKeyRow),
		coordination.RowResource: new(logpb.ResourceRow),
	}[kind]
}

// read unmarshals the codec's output and checks that the generated code would have written the same.
func read(t *testing.T, data []byte, message proto.Message) {
	t.Helper()
	if len(data) == 0 || data[0] == 0 || data[0] > Version {
		t.Fatalf("%x does not begin with a version", data)
	}
	if err := proto.Unmarshal(data[1:], message); err != nil {
		t.Fatalf("%x: %v", data, err)
	}
	generated, err := canonical.Marshal(message)
	if err != nil || !bytes.Equal(generated, data[1:]) {
		t.Errorf("the codec wrote %x\nthe generated code %x, %v", data[1:], generated, err)
	}
}

// compareFields compares a plain struct with a message by the names of their fields.
func compareFields(t *testing.T, plain any, message protoreflect.Message, ofKey ...string) {
	t.Helper()
	want := make(map[string]string)
	flattenStruct(want, "", reflect.ValueOf(plain))
	for _, name := range ofKey {
		delete(want, name)
	}
	got := make(map[string]string)
	flattenMessage(got, "", message)
	if !maps.Equal(want, got) {
		t.Errorf("plain:     %v\ngenerated: %v", want, got)
	}
}

// flattenStruct lists all that is not zero in a struct as the schema names it.
func flattenStruct(into map[string]string, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			inner := name
			switch {
			case field.Anonymous, field.Name == "Address", field.Name == "Config", field.Name == "Change":
			case v.Type().Name() == "Position" && field.Name == "Index":
			default:
				inner = strings.TrimPrefix(name+"_"+snake(field.Name), "_")
			}
			flattenStruct(into, inner, v.Field(i))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if v.Len() > 0 {
				into[name] = fmt.Sprintf("%q", v.Bytes())
			}
			return
		}
		for i := range v.Len() {
			flattenStruct(into, fmt.Sprintf("%s[%d]", name, i), v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			into[name] = fmt.Sprint(v.Elem())
		}
	case reflect.String:
		if v.Len() > 0 || strings.HasSuffix(name, "]") {
			into[name] = fmt.Sprintf("%q", v)
		}
	case reflect.Uint8: // an enumeration that knows its name
		if !v.IsZero() {
			into[name] = fmt.Sprint(v.Uint())
		}
	default:
		if !v.IsZero() {
			into[name] = fmt.Sprint(v)
		}
	}
}

// snake turns SelfCheckPeriodMillis into self_check_period_millis, and TxID into tx_id.
func snake(name string) string {
	var b strings.Builder
	wasLower := false
	for _, r := range name {
		if unicode.IsUpper(r) && wasLower {
			b.WriteByte('_')
		}
		wasLower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func flattenMessage(into map[string]string, name string, message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		inner := strings.TrimPrefix(name+"_"+string(field.Name()), "_")
		switch {
		case !field.IsList() && field.Message() != nil:
			flattenMessage(into, inner, value.Message())
			return true
		case !field.IsList():
			into[inner] = leaf(value)
			return true
		}
		for i := range value.List().Len() {
			at, element := fmt.Sprintf("%s[%d]", inner, i), value.List().Get(i)
			if field.Message() != nil {
				flattenMessage(into, at, element.Message())
			} else {
				into[at] = leaf(element)
			}
		}
		return true
	})
	if unknown := message.GetUnknown(); len(unknown) > 0 {
		into[name+" unknown"] = fmt.Sprintf("%x", unknown)
	}
}

func leaf(value protoreflect.Value) string {
	switch v := value.Interface().(type) {
	case []byte:
		return fmt.Sprintf("%q", v)
	case string:
		return fmt.Sprintf("%q", v)
	default:
		return fmt.Sprint(v)
	}
}

func compareCommand(t *testing.T, c coordination.Command) {
	t.Helper()
	message := new(logpb.Command)
	read(t, AppendCommand(nil, c), message)
	arm := message.ProtoReflect().WhichOneof(message.ProtoReflect().Descriptor().Oneofs().Get(0))
	if arm == nil || string(arm.Name()) != snake(reflect.TypeOf(c).Elem().Name()) {
		t.Fatalf("%T is written as %v", c, arm)
	}
	compareFields(t, reflect.ValueOf(c).Elem().Interface(), message.ProtoReflect().Get(arm).Message())
}

func compareRow(t *testing.T, row coordination.Row) {
	t.Helper()
	_, value, _ := EncodeRow(row)
	message := rowMessage(row.Key().Kind)
	read(t, value, message)
	ofKey := []string{"id", "id_place"}
	switch row.(type) {
	case coordination.SessionRow, coordination.SemaphoreRow, coordination.ResourceRow:
		ofKey = []string{"id", "node"}
	case coordination.LinkRow:
		ofKey = []string{"order", "node"}
	}
	compareFields(t, row, message.ProtoReflect(), ofKey...)
}

func TestGeneratedCodeReadsTheSame(t *testing.T) {
	const seed = 2
	for round := range 200 {
		f := &filler{}
		if round > 0 {
			f.random = rand.New(rand.NewPCG(seed, uint64(round)))
		}
		for _, c := range filledCommands(f) {
			compareCommand(t, c)
		}
		for _, row := range filledRows(f) {
			compareRow(t, row)
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
}

// fillMessage sets the fields of a generated message at random, each with a chance of a half.
func fillMessage(f *filler, message protoreflect.Message) {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case f.random.IntN(2) == 0:
		case field.IsList():
			list := message.Mutable(field).List()
			for range f.random.IntN(3) {
				element := list.NewElement()
				if field.Message() != nil {
					fillMessage(f, element.Message())
				} else {
					element = f.value(field)
				}
				list.Append(element)
			}
		case field.Message() != nil:
			inner := message.Mutable(field).Message()
			fillMessage(f, inner)
			if field.ContainingOneof() == nil && proto.Size(inner.Interface()) == 0 {
				message.Clear(field) // unlike a command it is left out then
			}
		default:
			message.Set(field, f.value(field))
		}
	}
}

func (f *filler) value(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(f.number())
	case protoreflect.Uint32Kind:
		n := uint32(f.number())
		// a byte in the plain structs
		if name := string(field.Name()); name == "kind" || name == "history" || strings.HasSuffix(name, "_kind") {
			n &= 255
		}
		return protoreflect.ValueOfUint32(n)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(f.number()))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(f.random.IntN(2) == 0)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(f.text())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(f.text()))
	}
	panic(fmt.Sprintf("no way to fill %s", field.FullName()))
}

func TestGeneratedCodeWritesTheSame(t *testing.T) {
	const seed = 3
	for round := range 2000 {
		f := &filler{random: rand.New(rand.NewPCG(seed, uint64(round)))}
		message := new(logpb.Command)
		fillMessage(f, message.ProtoReflect())
		if message.Command != nil {
			checkSame(t, message, func(data []byte) ([]byte, error) {
				c, err := DecodeCommand(data)
				if err != nil {
					return nil, err
				}
				return AppendCommand(nil, c), nil
			}, func(data []byte) uint64 {
				c, err := readCommand(data, false)
				if err != nil {
					t.Fatal(err)
				}
				return Since(c)
			})
		}
		for _, row := range allRows() {
			key, _, _ := EncodeRow(row)
			message := rowMessage(row.Key().Kind)
			fillMessage(f, message.ProtoReflect())
			checkSame(t, message, func(data []byte) ([]byte, error) {
				row, err := DecodeRow(key, data)
				if err != nil {
					return nil, err
				}
				_, value, _ := EncodeRow(row)
				return value, nil
			}, func(data []byte) uint64 {
				k, err := decodeKey(key)
				if err != nil {
					t.Fatal(err)
				}
				w := reader(data, true)
				return sinceRow(w.readRow(k))
			})
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
}

// checkSame wants what the generated code writes to come back through the codec. since says with which
// version the form of the value came.
func checkSame(t *testing.T, message proto.Message, through func([]byte) ([]byte, error), since func([]byte) uint64) {
	t.Helper()
	data, err := canonical.MarshalAppend([]byte{0}, message)
	if err != nil {
		t.Fatal(err)
	}
	data[0] = byte(since(data[1:]))
	back, err := through(data)
	if err != nil || !bytes.Equal(back, data) {
		t.Errorf("%v\ngenerated %x\nthrough the codec %x, %v", message, data, back, err)
	}
}
