// Package settings compares what members of a cluster were given that should be the same on all.
package settings

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/internal/lograte"
	"github.com/coordd/coordd/raftstore/membership"
	"github.com/coordd/coordd/raftstore/peerpb"
)

const (
	most    = 16
	textMax = 128 // bytes
)

// Setting is something that should be the same on all members. Longer texts than 128 bytes are cut.
type Setting struct{ Name, Value string }

// Unlike has the members that were given other settings than this one, and logs when that is found, when the
// difference is another one, and when it is over.
type Unlike struct {
	mu     sync.Mutex
	member map[uint64]*difference
}

// difference is the known difference of one member's settings.
type difference struct {
	text  string // what differs, empty: nothing
	state lograte.State
}

// Wire returns the settings as they are sent to other members.
func Wire(settings []Setting) []*peerpb.Setting {
	var sent []*peerpb.Setting
	for _, setting := range settings {
		sent = append(sent, &peerpb.Setting{Name: setting.Name,
			Value: lograte.Printable(setting.Value, textMax)})
	}
	return sent
}

// Compare notes the settings of another member, which an older program does not send.
func (u *Unlike) Compare(list *membership.List, ours []*peerpb.Setting, h *peerpb.Header, log *slog.Logger,
	now time.Time) {
	if len(h.GetSettings()) == 0 || len(ours) == 0 {
		return
	}
	text := differences(h.GetSettings(), ours)
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.member, func(id uint64, _ *difference) bool { return !list.Admits(id) })
	of := u.member[h.GetFrom()]
	if of == nil {
		if text == "" {
			return
		}
		if u.member == nil {
			u.member = map[uint64]*difference{}
		}
		of = &difference{}
		u.member[h.GetFrom()] = of
	}
	of.text = text
	of.tell(log.With("server", list.Conf.NameOf(h.GetFrom())), now)
}

func (d *difference) tell(log *slog.Logger, now time.Time) {
	ok, hidden := d.state.Allow(d.text, now)
	if !ok {
		return
	}
	if hidden > 0 {
		log = log.With(lograte.Suppressed, hidden)
	}
	if d.text != "" {
		log.Warn("another server was given other settings, which should be the same on all", "what", d.text)
	} else {
		log.Info("the settings of another server are the same as here now")
	}
}

// differences are the settings that both know and that are not the same, in the order of ours.
func differences(theirs, ours []*peerpb.Setting) string {
	var found []string
	for _, own := range ours {
		at := slices.IndexFunc(theirs, func(s *peerpb.Setting) bool { return s.GetName() == own.GetName() })
		if at < 0 || at >= most {
			continue
		}
		if value := lograte.Printable(theirs[at].GetValue(), textMax); value != own.GetValue() {
			found = append(found, own.GetName()+" is "+value+" there and "+own.GetValue()+" here")
		}
	}
	return strings.Join(found, "; ")
}

// Found returns the differences by member.
func (u *Unlike) Found() map[uint64]string {
	u.mu.Lock()
	defer u.mu.Unlock()
	found := map[uint64]string{}
	for id, of := range u.member {
		if of.text != "" {
			found[id] = of.text
		}
	}
	return found
}
