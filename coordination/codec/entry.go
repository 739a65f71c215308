package codec

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/coordd/coordd/coordination"
)

// The fields of logpb.Entry.
const (
	entryStamp    protowire.Number = 1
	entryCommands protowire.Number = 2
	entryServed   protowire.Number = 3
)

// BeginEntry appends the beginning of an entry to dst and returns the extended slice. AppendToEntry adds its
// commands: one at least, and all of them only while every server of the cluster can read VersionEntries.
func BeginEntry(dst []byte, stampMillis uint64) []byte {
	dst = append(dst, VersionEntries)
	if stampMillis != 0 {
		dst = protowire.AppendVarint(protowire.AppendTag(dst, entryStamp, protowire.VarintType), stampMillis)
	}
	return dst
}

// AppendToEntry adds a command to an entry and returns the extended slice.
func AppendToEntry(entry []byte, c coordination.Command) []byte {
	w := wire{mode: measuring}
	field := w.command(c)
	content := protowire.SizeTag(field) + protowire.SizeBytes(w.size)
	entry = slices.Grow(entry, protowire.SizeTag(entryCommands)+protowire.SizeBytes(content))
	entry = protowire.AppendTag(entry, entryCommands, protowire.BytesType)
	entry = protowire.AppendVarint(entry, uint64(content))
	return appendCommand(entry, c, field, w.size)
}

// AppendEncoded is AppendToEntry for a command that AppendCommand has encoded.
func AppendEncoded(entry, command []byte) []byte {
	entry = protowire.AppendTag(entry, entryCommands, protowire.BytesType)
	return protowire.AppendBytes(entry, command[1:])
}

// EndBytesMax is the largest number of bytes that EndEntry adds: a tag and a number.
const EndBytesMax = 1 + 10

// EndEntry adds to an entry with all its commands for how long its leader has served, unless that is 0, which is for
// logs that every server reads with VersionAges, and marks it if changes of data count, which is for logs that every
// server reads with VersionVersions. It returns the extended slice.
func EndEntry(entry []byte, servedMillis uint64, versions bool) []byte {
	switch {
	case versions:
		entry[0] = VersionVersions
	case servedMillis != 0:
		entry[0] = VersionAges
	}
	if servedMillis == 0 {
		return entry
	}
	return protowire.AppendVarint(protowire.AppendTag(entry, entryServed, protowire.VarintType), servedMillis)
}

// DecodeEntry reads the times and the commands of an entry of the log into e, whose other fields it leaves
// alone: those that BeginEntry, AppendToEntry and EndEntry wrote, or the one that AppendCommand wrote; e gets no
// command from no data. The slice of commands that e has is used again. Byte slices of the only command of an entry
// share memory with data, which must not be changed afterwards; those of one among several do not, because
// what lives on of one command must not keep the others' bytes. Errors are those of DecodeCommand.
func DecodeEntry(data []byte, e *coordination.Entry) error {
	e.StampMillis, e.ServedMillis, e.Versions, e.Commands = 0, 0, false, e.Commands[:0]
	switch {
	case len(data) == 0:
		return nil
	case data[0] < VersionEntries:
		c, err := DecodeCommand(data)
		if err == nil {
			e.Commands = append(e.Commands, c)
		}
		return err
	case data[0] != VersionEntries && data[0] != VersionAges && data[0] != VersionVersions:
		return fmt.Errorf("an entry has format version %d, this program knows versions %d, %d and %d", data[0],
			VersionEntries, VersionAges, VersionVersions) // the form stayed the same, whatever commands say
	}
	e.Versions = data[0] == VersionVersions
	w := reader(data[1:], false)
	number(&w, entryStamp, &e.StampMillis)
	for w.at(entryCommands, protowire.BytesType) && len(e.Commands) < coordination.MaxEntryCommands {
		message := w.takeBytes()
		w.nextTag()
		if w.err != nil {
			break
		}
		c, err := readCommand(message, w.tag != 0 || len(e.Commands) > 0)
		if err != nil {
			return fmt.Errorf("command %d of an entry: %w", len(e.Commands), err)
		}
		e.Commands = append(e.Commands, c)
	}
	number(&w, entryServed, &e.ServedMillis)
	if err := w.finish(); err != nil {
		return fmt.Errorf("an entry is broken: %w", err)
	}
	if !e.Versions && (e.ServedMillis != 0) != (data[0] == VersionAges) {
		return fmt.Errorf("an entry of format version %d says that its leader has served for %d ms", data[0],
			e.ServedMillis)
	}
	if len(e.Commands) == 0 {
		return fmt.Errorf("an entry of format version %d has no command", data[0])
	}
	return nil
}

// Glance returns the number of commands in an entry, and whether a DropNode is among them, as far as the first bytes of
// each show. It serves to estimate how long an entry will take, and ignores damage.
func Glance(entry []byte) (commands int, dropsNode bool) {
	switch {
	case len(entry) == 0:
		return 0, false
	case entry[0] < VersionEntries:
		return 1, beginsDropNode(entry[1:])
	}
	for rest := entry[1:]; len(rest) > 0; {
		field, wireType, n := protowire.ConsumeField(rest)
		if n < 0 {
			break
		}
		if field == entryCommands && wireType == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(rest)
			_, length := protowire.ConsumeVarint(rest[tag:])
			commands++
			dropsNode = dropsNode || beginsDropNode(rest[tag+length:n])
		}
		rest = rest[n:]
	}
	return commands, dropsNode
}

func beginsDropNode(command []byte) bool {
	field, _, n := protowire.ConsumeTag(command)
	return n > 0 && field == dropNode
}
