package codec

import (
	"bytes"
	"reflect"
	"runtime"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec/internal/logpb"
)

// An input is refused, or it encodes to itself again; what is accepted is exactly what the generated code
// reads and writes in the same form.
func FuzzDecodeCommand(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{versionFirst})
	for _, c := range append(allCommands(), filledCommands(&filler{})...) {
		f.Add(AppendCommand(nil, c))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := DecodeCommand(data)
		message := new(logpb.Command)
		switch {
		case err != nil:
			if len(data) > 0 && hasVersion(data) && writesTheSame(data[1:], message) &&
				message.Command != nil {
				t.Fatalf("%x is refused: %v", data, err)
			}
			return
		case c == nil:
			if len(data) > 0 {
				t.Fatalf("%x is no command", data)
			}
			return
		}
		if again := AppendCommand(nil, c); !bytes.Equal(again, data) {
			t.Fatalf("%x comes back as %x", data, again)
		}
		if allUTF8(reflect.ValueOf(c)) && !writesTheSame(data[1:], message) {
			t.Fatalf("%x is not what the generated code writes", data)
		}
	})
}

// hasVersion reports whether a command begins with the version with which its form came.
func hasVersion(data []byte) bool {
	c, err := readCommand(data[1:], false)
	return err != nil || Since(c) == uint64(data[0])
}

// hasRowVersion is hasVersion for the value of a row.
func hasRowVersion(k coordination.RowKey, value []byte) bool {
	w := reader(value[1:], true)
	row := w.readRow(k)
	return w.finish() != nil || sinceRow(row) == uint64(value[0])
}

// An entry is refused, or it encodes to itself again.
func FuzzDecodeEntry(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{VersionEntries})
	f.Add(entryOf(77, filledCommands(&filler{})))
	f.Add(entryOf(0, allCommands()[:1]))
	for _, c := range allCommands() {
		f.Add(AppendCommand(nil, c))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e coordination.Entry
		if err := DecodeEntry(data, &e); err != nil {
			return
		}
		again := []byte{}
		switch {
		case len(data) == 0:
		case data[0] < VersionEntries:
			again = AppendCommand(nil, e.Commands[0])
		default:
			again = entryOf(e.StampMillis, e.Commands)
		}
		if !bytes.Equal(again, data) {
			t.Fatalf("%x comes back as %x", data, again)
		}
		if commands, _ := Glance(data); commands != len(e.Commands) {
			t.Fatalf("%x has %d commands, at a glance %d", data, len(e.Commands), commands)
		}
	})
}

func FuzzDecodeRow(f *testing.F) {
	for _, row := range append(allRows(), filledRows(&filler{})...) {
		key, value, _ := EncodeRow(row)
		f.Add(key, value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		row, err := DecodeRow(key, value)
		if err != nil {
			k, wrongKey := decodeKey(key)
			if wrongKey == nil && len(value) > 0 && hasRowVersion(k, value) &&
				writesTheSame(value[1:], rowMessage(k.Kind)) {
				t.Fatalf("%x, %x is refused: %v", key, value, err)
			}
			return
		}
		againKey, againValue, deleted := EncodeRow(row)
		if deleted || !bytes.Equal(againKey, key) || !bytes.Equal(againValue, value) {
			t.Fatalf("%x, %x comes back as %x, %x", key, value, againKey, againValue)
		}
		if allUTF8(reflect.ValueOf(row)) && !writesTheSame(value[1:], rowMessage(row.Key().Kind)) {
			t.Fatalf("%x, %x is not what the generated code writes", key, value)
		}
	})
}

// writesTheSame reports whether the generated code reads data and writes it again in the same form, with
// nothing in it that the plain structs cannot hold.
func writesTheSame(data []byte, message proto.Message) bool {
	if proto.Unmarshal(data, message) != nil {
		return false
	}
	again, err := canonical.Marshal(message)
	return err == nil && bytes.Equal(again, data) && holdable(message.ProtoReflect())
}

func holdable(message protoreflect.Message) bool {
	ok := len(message.GetUnknown()) == 0
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Name() == "kind":
			ok = ok && value.Uint() < 256
		case field.Message() != nil && field.IsList():
			for i := range value.List().Len() {
				ok = ok && holdable(value.List().Get(i).Message())
			}
		case field.Message() != nil:
			ok = ok && holdable(value.Message())
		}
		return ok
	})
	return ok
}

// allUTF8 reports whether the generated code would accept every text of a value.
func allUTF8(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || allUTF8(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if !allUTF8(v.Field(i)) {
				return false
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if !allUTF8(v.Index(i)) {
				return false
			}
		}
	case reflect.String:
		return utf8.ValidString(v.String())
	}
	return true
}

// A short input must not make a decoder take much memory.
func TestMemoryIsBoundedByTheInput(t *testing.T) {
	inputs := map[string][]byte{
		"an announced gigabyte": []byte("\x01\x4a\x80\x80\x80\x80\x04"),
		"empty actions":         append([]byte("\x01\x7a\x80\x10"), bytes.Repeat([]byte{0x32, 0}, 1024)...),
		"empty path components": append([]byte("\x01\x62\x80\x10"), bytes.Repeat([]byte{0x1a, 0}, 1024)...),
	}
	for name, data := range inputs {
		const runs = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			_, _ = DecodeCommand(data)
		}
		runtime.ReadMemStats(&after)
		// an action takes 56 bytes, a slice may grow to twice what it needs, on the way it is copied
		const factor = 150
		if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > uint64(len(data))*factor+1024 {
			t.Errorf("%s: %d bytes make %d", name, len(data), got)
		}
	}
}
