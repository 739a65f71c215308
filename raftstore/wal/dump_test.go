package wal

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coordd/coordd/raftstore/rig"
)

// dump describes the files of a log.
func dump(m *rig.Memory) string {
	var b strings.Builder
	for _, name := range m.Paths() {
		content := slices.Clone(m.Content(name))
		h, ok := decodeHeader(content)
		fmt.Fprintf(&b, "%s: %d bytes", filepath.Base(name), len(content))
		if !ok {
			b.WriteString(", no header\n")
			continue
		}
		f := newSegment(name, h)
		fmt.Fprintf(&b, ", reset %d, follows %d at %d, entry %d, %+v\n", h.Reset, h.Before.Sequence, h.Before.End,
			h.Last, h.Hard)
		for at := int64(headerBytes); ; {
			found, ok := f.batch(content, at)
			if !ok {
				_, err := f.judge(content, at)
				fmt.Fprintf(&b, "  %d: end, %v\n", at, err)
				break
			}
			fmt.Fprintf(&b, "  %d to %d:", at, found.end)
			_ = records(found.payload, found.count, func(r record) error {
				fmt.Fprintf(&b, " %d/%d.%d", r.kind, r.index, r.term)
				return nil
			})
			b.WriteString("\n")
			at = found.end
		}
	}
	return b.String()
}
