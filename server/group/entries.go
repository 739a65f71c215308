package group

import (
	"slices"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
)

// entries encodes the commands of a turn: as one entry, or as few as the limits permit. Before every server of the
// cluster can read such entries each command has its own. The turn is held.
func (g *core) entries(commands []coordination.Command) [][]byte {
	format := g.FormatVersion()
	served := g.replica.Served(g.clock.Now(), format >= codec.VersionEntries)
	if format < codec.VersionEntries {
		return g.singleEntries(commands)
	}
	entries := make([][]byte, 0, 1)
	entry := codec.BeginEntry(g.packing[:0], g.replica.Stamp(g.clock.WallMillis()))
	begun, count := len(entry), 0
	versions := format >= codec.VersionVersions
	end := func(until int) {
		entries = append(entries, codec.EndEntry(slices.Clone(entry[:until]), served, versions))
		count = 0
	}
	alone := false
	for _, c := range commands {
		before := len(entry)
		entry = g.appendToEntry(entry, c)
		single := coordination.Alone(c)
		if count > 0 && (alone || single || count == coordination.MaxEntryCommands ||
			len(entry) > coordination.MaxEntryBytes-codec.EndBytesMax) {
			end(before)
			entry = append(entry[:begun], entry[before:]...)
		}
		count, alone = count+1, single
	}
	end(len(entry))
	// the buffer of one large command is not kept
	if g.packing = entry; cap(g.packing) > 2*coordination.MaxEntryBytes {
		g.packing = nil
	}
	return entries
}

func (g *core) appendToEntry(entry []byte, c coordination.Command) []byte {
	if encoded := g.passedOn(c); encoded != nil {
		return codec.AppendEncoded(entry, encoded)
	}
	return codec.AppendToEntry(entry, c)
}

// singleEntries encodes each command as an entry of its own, in the format that every version of the program reads. A
// command that names a place in an entry is the exception: there have been shared entries, so all servers could read
// them, before a member joined whose version is not known yet.
func (g *core) singleEntries(commands []coordination.Command) [][]byte {
	entries := make([][]byte, len(commands))
	for i, c := range commands {
		switch encoded := g.passedOn(c); {
		case codec.Since(c) >= codec.VersionEntries:
			entries[i] = g.appendToEntry(codec.BeginEntry(nil, 0), c)
		case encoded != nil:
			entries[i] = encoded
		default:
			entries[i] = codec.AppendCommand(nil, c)
		}
	}
	return entries
}

// passedOn returns the encoding of a command that came from another server, nil for all others. It need not be encoded
// anew: the codec decodes nothing but the one encoding of a command. The turn is held.
func (g *core) passedOn(c coordination.Command) []byte {
	if name, is := coordination.CallOf(c); is {
		for _, waiting := range g.replica.Waiting(name) {
			if a := waiting.attempt; a.command == c && a.encoded != nil {
				return a.encoded
			}
		}
	}
	return nil
}
