package rig

import (
	"maps"
	"math/rand/v2"
	"slices"
)

const (
	sectorBytes = 512
	pageBytes   = 4096
)

// Crash returns what a power cut may leave: of the unsynced names and writes none, all or any, and of writes any of
// their sectors or pages.
func (m *Memory) Crash(r *rand.Rand) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := maps.Clone(m.durable)
	keep := r.IntN(4) // no name, all, the first ones, or any
	until := r.IntN(len(m.pending) + 1)
	for i, c := range m.pending {
		if keep == 0 || keep == 2 && i >= until || keep == 3 && r.IntN(2) == 0 {
			continue
		}
		c.apply(names)
	}
	mode := r.IntN(5)
	return m.image(names, func(f *file) []byte { return f.crash(r, mode) })
}

func (f *file) crash(r *rand.Rand, mode int) []byte {
	b := slices.Clone(f.durable)
	for _, c := range f.pending {
		switch {
		case mode == 0 || mode == 2 && r.IntN(2) == 0:
		case mode <= 2 || c.data == nil && r.IntN(2) == 0:
			b = c.apply(b)
		case c.data != nil:
			b = c.tear(b, r, []int64{sectorBytes, pageBytes}[mode-3])
		}
	}
	return b
}

// tear applies any of the sectors of a write.
func (c fileChange) tear(b []byte, r *rand.Rand, sector int64) []byte {
	share := 1 + r.IntN(7)
	for from := c.at; from < c.at+int64(len(c.data)); {
		to := min((from/sector+1)*sector, c.at+int64(len(c.data)))
		if r.IntN(8) < share {
			b = fileChange{from, c.data[from-c.at : to-c.at]}.apply(b)
		}
		from = to
	}
	return b
}
