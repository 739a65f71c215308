package group

// FormatVersion is the newest version of commands that every server of the cluster can read. Before that is
// known of all it is the first.
func (g *Group) FormatVersion() uint64 { return max(1, g.readable()) }

// readable is the same, and 0 before it is known of all.
func (g *Group) readable() uint64 {
	if g.alone() {
		return g.config.Formats.Version
	}
	return g.store.ClusterVersion()
}

// Crowded reports whether what makes the state larger is refused: the disk of this server, which leads, is
// nearly full, and no other server can take the leadership. The reserve is for what makes the state smaller.
func (g *Group) Crowded() bool { return g.store.Writable() != nil && !g.store.HandingOver() }
