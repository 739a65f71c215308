package codec

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination"
)

// The set of commands is closed, but only inside its package; its source lists them.
func TestEveryCommandIsListed(t *testing.T) {
	var declared []string
	for _, name := range []string{"../command.go", "../users_command.go", "../lineage.go",
		"../resources_command.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok &&
				!slices.Contains([]string{"Command", "Origin", "Caller", "lineage", "Real",
					"ResourceProperties"}, spec.Name.Name) {
				declared = append(declared, spec.Name.Name)
			}
			return true
		})
	}
	var listed []string
	for _, c := range allCommands() {
		listed = append(listed, reflect.TypeOf(c).Elem().Name())
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) {
		t.Errorf("declared: %v\nlisted: %v", declared, listed)
	}
}

func checkCommand(t *testing.T, c coordination.Command) {
	t.Helper()
	data := AppendCommand(nil, c)
	if again := AppendCommand([]byte("before"), c); string(again) != "before"+string(data) {
		t.Errorf("%T appends %x behind other bytes, %x alone", c, again, data)
	}
	back, err := DecodeCommand(data)
	if err != nil {
		t.Fatalf("%#v: %v", c, err)
	}
	if !reflect.DeepEqual(back, c) {
		t.Errorf("sent %#v\n got %#v", c, back)
	}
}

func TestCommandsComeBack(t *testing.T) {
	for _, c := range allCommands() {
		checkCommand(t, c)
	}
	for _, c := range filledCommands(&filler{}) {
		checkCommand(t, c)
	}
	const seed = 1
	for round := range 300 {
		for _, c := range filledCommands(&filler{random: rand.New(rand.NewPCG(seed, uint64(round)))}) {
			checkCommand(t, c)
		}
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
}

func TestNoCommand(t *testing.T) {
	if data := AppendCommand(nil, nil); len(data) != 0 {
		t.Errorf("the nil command is encoded as %x", data)
	}
	if c, err := DecodeCommand(nil); c != nil || err != nil {
		t.Errorf("no data is %#v, %v", c, err)
	}
}

func TestEmptyDataIsNil(t *testing.T) {
	c := &coordination.UpdateSemaphore{Name: "a", Data: []byte{}}
	back, err := DecodeCommand(AppendCommand(nil, c))
	if err != nil || back.(*coordination.UpdateSemaphore).Data != nil {
		t.Errorf("got %#v, %v", back, err)
	}
}

func TestOneMiBComesBack(t *testing.T) {
	c := &coordination.AcquireSemaphore{Name: "a", Count: 1,
		Data: bytes.Repeat([]byte{7}, coordination.MaxAcquireDataBytes)}
	checkCommand(t, c)
}

func TestTextNeedNotBeUTF8(t *testing.T) {
	checkCommand(t, &coordination.ReleaseSemaphore{Name: "\xff"})
	checkCommand(t, &coordination.Attach{ProtectionKey: "\x00\xff"})
}

func TestBrokenCommands(t *testing.T) {
	release := AppendCommand(nil, &coordination.ReleaseSemaphore{Origin: coordination.Origin{Node: 1,
		Session: 2}, Name: "a"})
	// release is 01 | 4a 07 | 08 01 | 10 02 | 32 01 'a'
	cases := []struct {
		name, data, want string
	}{
		{"version 0", "\x00", "format version 0"},
		{"a later version", "\x04" + string(release[1:]), "format version 4"},
		{"a later version than its form's", "\x02" + string(release[1:]), "format version 2, and not 1"},
		{"an earlier version than its form's", "\x01\x22\x02\x38\x01", "format version 1, and not 2"},
		{"no command", "\x01", "command 0"},
		{"a later command", "\x01\x9a\x06\x00", "command 99 of type 2 is unknown"},
		{"half a tag", "\x01\x80", "EOF"},
		{"a command that is no message", "\x01\x48\x01", "command 9 of type 0 is unknown"},
		{"two commands", string(release) + string(release[1:]),
			"field 9 of type 2 is unknown or not in its place"},
		{"bytes behind", string(release) + "\x80", "EOF"},
		{"a length beyond the end", "\x01\x4a\x08\x08\x01\x10\x02\x3a\x01a",
			"8 bytes are announced, 7 are there"},
		{"a huge length", "\x01\x4a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "bytes are announced"},
		{"a later field", "\x01\x4a\x02\x40\x01", "field 8 of type 0 is unknown"},
		{"fields in the wrong order", "\x01\x4a\x04\x10\x02\x08\x01",
			"field 1 of type 0 is unknown or not in its place"},
		{"a field twice", "\x01\x4a\x04\x08\x01\x08\x01", "field 1 of type 0 is unknown or not in its place"},
		{"a field of another type", "\x01\x4a\x02\x0a\x00",
			"field 1 of type 2 is unknown or not in its place"},
		{"a zero that is spelt out", "\x01\x4a\x02\x08\x00", "field 1 is zero or out of range"},
		{"an empty text that is spelt out", "\x01\x4a\x02\x3a\x00", "field 7 is empty"},
		{"a number in a longer form", "\x01\x4a\x03\x08\x81\x00", "longer than it needs to be"},
		{"a tag in a longer form", "\x01\x4a\x03\x88\x00\x01", "longer than it needs to be"},
		{"tag 0", "\x01\x4a\x01\x00", "tag 0"},
		{"a number that ends early", "\x01\x4a\x02\x08\x80", "EOF"},
		{"a flag that is 2", "\x01\x3a\x02\x40\x02", "field 8 is neither true nor false"},
		{"an optional flag that is 2", "\x01\x7a\x02\x28\x02", "field 5 is neither true nor false"},
		{"a kind that is too large", "\x01\x7a\x05\x32\x03\x08\x80\x02",
			"field 6: field 1 is zero or out of range"},
		{"limits that are empty", "\x02\xaa\x01\x02\x2a\x00", "field 5 is empty or twice there"},
		{"limits twice", "\x02\xaa\x01\x08\x2a\x02\x08\x01\x2a\x02\x08\x01",
			"field 5 is empty or twice there"},
		{"a config value that is too large", "\x01\x52\x06\x20\x80\x80\x80\x80\x10",
			"field 4 is zero or out of range"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			command, err := DecodeCommand([]byte(c.data))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %#v, %v; want an error with %q", command, err, c.want)
			}
			if command != nil {
				t.Errorf("an error comes with a command")
			}
		})
	}
	if _, err := DecodeCommand(release); err != nil {
		t.Error(err)
	}
	for end := 1; end < len(release); end++ {
		if _, err := DecodeCommand(release[:end]); err == nil {
			t.Errorf("the first %d bytes of %x are accepted", end, release)
		}
	}
}

type stranger struct{ coordination.Command }

func TestUnknownCommandPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	AppendCommand(nil, stranger{})
}
