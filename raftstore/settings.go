package raftstore

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

// unlike tells of members that were given other settings than this one: when that is found, when it is
// another one, and when it is over.
type unlike struct {
	mu     sync.Mutex
	member map[uint64]*difference
}

// difference is what is known of one member.
type difference struct {
	text  string // what differs, empty: nothing
	state lograte.State
}

// settings are those of this member for the others.
func (c *Cluster) settings() []*peerpb.Setting {
	if c.Settings == nil {
		return nil
	}
	var told []*peerpb.Setting
	for _, setting := range c.Settings() {
		told = append(told, &peerpb.Setting{Name: setting.Name,
			Value: lograte.Printable(setting.Value, settingTextMax)})
	}
	return told
}

// compare notes what another member says of its settings. One of an older program says nothing.
func (u *unlike) compare(list *membership.List, ours []*peerpb.Setting, h *peerpb.Header, log *slog.Logger,
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
		if at < 0 || at >= settingsMax {
			continue
		}
		if value := lograte.Printable(theirs[at].GetValue(), settingTextMax); value != own.GetValue() {
			found = append(found, own.GetName()+" is "+value+" there and "+own.GetValue()+" here")
		}
	}
	return strings.Join(found, "; ")
}

// found returns the differences by member.
func (u *unlike) found() map[uint64]string {
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
