package codec

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec/internal/logpb"
)

// entryOf is an entry with the given commands.
func entryOf(stampMillis uint64, commands []coordination.Command) []byte {
	entry := BeginEntry(nil, stampMillis)
	for _, c := range commands {
		entry = AppendToEntry(entry, c)
	}
	return entry
}

// sameEntry wants the commands to come back, through the codec and through the generated code.
func sameEntry(t *testing.T, stampMillis uint64, commands []coordination.Command) {
	t.Helper()
	data := entryOf(stampMillis, commands)
	e := coordination.Entry{Index: 7, Term: 3, StampMillis: 9, Commands: make([]coordination.Command, 5)}
	if err := DecodeEntry(data, &e); err != nil {
		t.Fatalf("%x: %v", data, err)
	}
	if !reflect.DeepEqual(e.Commands, commands) || e.Index != 7 || e.Term != 3 ||
		e.StampMillis != stampMillis {
		t.Errorf("sent %#v\n got %#v", commands, e)
	}
	message := new(logpb.Entry)
	read(t, data, message)
	if len(message.GetCommands()) != len(commands) || message.GetStampMillis() != stampMillis {
		t.Errorf("%d commands, for the generated code %d", len(commands), len(message.GetCommands()))
	}
	encoded := BeginEntry(nil, stampMillis)
	for _, c := range commands {
		encoded = AppendEncoded(encoded, AppendCommand(nil, c))
	}
	if !bytes.Equal(encoded, data) {
		t.Errorf("of encoded commands it is %x, not %x", encoded, data)
	}
}

func TestEntriesComeBack(t *testing.T) {
	sameEntry(t, 0, allCommands())
	for _, c := range filledCommands(&filler{}) {
		sameEntry(t, 1_700_000_000_000, []coordination.Command{c})
	}
	const seed = 1
	for round := range 300 {
		f := &filler{random: rand.New(rand.NewPCG(seed, uint64(round)))}
		sameEntry(t, f.number(), append(filledCommands(f), filledCommands(f)...)[:1+f.random.IntN(30)])
	}
}

// What was written before there were entries of several commands is read as ever.
func TestEntriesOfTheFirstVersion(t *testing.T) {
	for _, c := range filledCommands(&filler{version: 1}) {
		if Since(c) != versionFirst { // came later as a whole
			continue
		}
		var e coordination.Entry
		if err := DecodeEntry(AppendCommand(nil, c), &e); err != nil || len(e.Commands) != 1 ||
			!reflect.DeepEqual(e.Commands[0], c) {
			t.Errorf("sent %#v, got %#v, %v", c, e.Commands, err)
		}
	}
	e := coordination.Entry{StampMillis: 9, Commands: allCommands()}
	if err := DecodeEntry(nil, &e); err != nil || len(e.Commands) != 0 || e.StampMillis != 0 {
		t.Errorf("no data is %v, %v", e.Commands, err)
	}
}

func TestBrokenEntries(t *testing.T) {
	lineage := &coordination.BeginLineage{Lineage: 1}
	one := entryOf(0, []coordination.Command{lineage}) // 02 | 12 05 | a2 01 02 08 01
	most := entryOf(0, releases(coordination.MaxEntryCommands))
	var e coordination.Entry
	if err := DecodeEntry(most, &e); err != nil || len(e.Commands) != coordination.MaxEntryCommands {
		t.Errorf("an entry as full as can be: %v", err)
	}
	for name, c := range map[string]struct{ data, want string }{
		"a later version":     {"\x04" + string(one[1:]), "format version 4"},
		"no command":          {"\x02", "has no command"},
		"a stamp that is 0":   {"\x02\x08\x00" + string(one[1:]), "field 1 is zero"},
		"a stamp and no more": {"\x02\x08\x01", "has no command"},
		"a stamp behind": {string(one) + "\x08\x01",
			"field 1 of type 0 is unknown or not in its place"},
		"an empty command": {"\x02\x12\x00", "command 0 of type 0 is unknown"},
		"a later command":  {"\x02\x12\x03\x9a\x06\x00", "command 99 of type 2 is unknown"},
		"a later field":    {string(one) + "\x20\x01", "field 4 of type 0 is unknown"},
		"served before its version": {string(one) + "\x18\x01",
			"format version 2 says that its leader has served for 1 ms"},
		"served for no time": {"\x04" + string(one[1:]), "format version 4 says that its leader has served for 0 ms"},
		"served and no more": {"\x04\x18\x01", "has no command"},
		"one command too many": {string(AppendToEntry(most, lineage)),
			"field 2 of type 2 is unknown or not in its place"},
		"a mark with a field":   {"\x02\x12\x05\xb2\x01\x02\x08\x01", "field 1 of type 0 is unknown"},
		"a broken second":       {string(one) + "\x12\x01\xa2", "command 1 of an entry"},
		"a command that is cut": {string(one[:len(one)-1]), "5 bytes are announced, 4 are there"},
		"a command as it was": {"\x02" + string(AppendCommand(nil, lineage)[1:]),
			"field 20 of type 2 is unknown"},
		"a length in long form":  {"\x02\x12\x85\x00" + string(one[3:]), "longer than it needs to be"},
		"bytes behind a command": {"\x02\x12\x06" + string(one[3:]) + "\x01", "is broken"},
	} {
		if err := DecodeEntry([]byte(c.data), &e); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v; want an error with %q", name, err, c.want)
		}
	}
}

func releases(n int) []coordination.Command {
	commands := make([]coordination.Command, n)
	for i := range commands {
		commands[i] = &coordination.ReleaseSemaphore{Name: "a"}
	}
	return commands
}

// What lives on of one command must not keep the bytes of all others; of a command alone it may.
func TestEntriesShareNoMemory(t *testing.T) {
	update := func(name string) coordination.Command {
		return &coordination.UpdateSemaphore{Name: name, Data: []byte("data of " + name)}
	}
	for n := 1; n <= 2; n++ {
		data := entryOf(0, []coordination.Command{update("a"), update("b")}[:n])
		var e coordination.Entry
		if err := DecodeEntry(data, &e); err != nil {
			t.Fatal(err)
		}
		clear(data)
		for _, c := range e.Commands {
			c := c.(*coordination.UpdateSemaphore)
			if shares := string(c.Data) != "data of "+c.Name; shares != (n == 1) {
				t.Errorf("of %d commands %s shares memory: %v", n, c.Name, shares)
			}
		}
	}
}

func TestGlance(t *testing.T) {
	for _, c := range allCommands() {
		_, want := c.(*coordination.DropNode)
		forms := [][]byte{entryOf(0, []coordination.Command{c})}
		if Since(c) == versionFirst { // so it may stand alone
			forms = append(forms, AppendCommand(nil, c))
		}
		for _, data := range forms {
			if n, got := Glance(data); got != want || n != 1 {
				t.Errorf("%T: %d commands, %v", c, n, got)
			}
		}
	}
	if n, drops := Glance(entryOf(5, allCommands())); n != len(allCommands()) || !drops {
		t.Errorf("all commands: %d, %v", n, drops)
	}
	for _, data := range [][]byte{nil, {1}, {1, 0x80}, {2}, {2, 0x12}, {2, 0x12, 0x05, 0x62}} {
		if _, drops := Glance(data); drops {
			t.Errorf("%x", data)
		}
	}
}
