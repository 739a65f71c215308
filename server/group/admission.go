package group

import (
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/codec"
)

// OwnFormats are those of this program.
var OwnFormats = coordination.Formats{Version: codec.Version, Since: codec.Since}

// FormatVersion is the newest version of commands that every server of the cluster can read. Before anything is
// known of the others it is the first.
func (g *Group) FormatVersion() uint64 {
	if g.alone() {
		return g.config.Formats.Version
	}
	return max(1, g.store.ClusterVersion())
}

// Crowded tells whether what makes the state larger is refused: the disk of this server, which leads, is nearly full,
// and no other server can take the leadership. The reserve is for what makes the state smaller.
func (g *Group) Crowded() bool { return g.store.Writable() != nil && !g.store.HandingOver() }
