package scheme

import (
	"fmt"

	"github.com/coordd/coordd/scheme/outcome"
)

// Account is the quota of an entry and its usage. The tree counts entries. The holder of the nodes counts their bytes,
// and sets Used where a quota is new (see Usage).
type Account struct {
	Quota
	Used Quota
	Path string
}

// Fits reports whether a quota has room for more. What does not grow always fits, also where more is used
// than the quota allows.
func (a *Account) Fits(bytes, entries uint64) bool {
	return fitsInto(a.Quota.Bytes, a.Used.Bytes, bytes) && fitsInto(a.Quota.Entries, a.Used.Entries, entries)
}

func fitsInto(most, used, more uint64) bool {
	return more == 0 || most == 0 || used <= most && more <= most-used
}

// FullText is the text of the refusal of everything that does not fit.
func (a *Account) FullText() string { return fmt.Sprintf("Quota of %s is used up", Shown(a.Path)) }

// SetQuota judges a change of the quota of the entry at path. What is used already does not matter.
func (t *Tree) SetQuota(path Path, q Quota) (Step, outcome.Outcome) {
	v := t.find(path)
	switch {
	case v == nil || v == t.root:
		return nil, pathDoesNotExist()
	case q.Entries != 0 && !v.entry.Kind.likeDirectory():
		return nil, outcome.Because(outcome.BadRequest, "A coordination node has no entries that a quota could bound")
	case v.entry.Quota == q:
		return nil, outcome.Done()
	}
	return func() {
		v.setQuota(q)
		t.touch(v.entry.ID)
	}, outcome.Done()
}

func (v *vertex) setQuota(q Quota) {
	switch v.entry.Quota = q; {
	case q == Quota{}:
		v.account = nil
	case v.account == nil:
		v.account = &Account{Quota: q, Path: v.path().String()}
	default:
		v.account.Quota = q
	}
}

// Account returns the quota of the entry at path with its usage, or nil.
func (t *Tree) Account(path Path) *Account {
	if v := t.find(path); v != nil {
		return v.account
	}
	return nil
}

// Accounts returns the quotas that bound what is at path, the nearest first. They change as the tree does.
func (t *Tree) Accounts(path Path) []*Account {
	v, _ := t.deepest(path)
	var accounts []*Account
	for ; v != nil; v = v.parent {
		if v.account != nil {
			accounts = append(accounts, v.account)
		}
	}
	return accounts
}

// Usage counts what the entries of the tree use of each quota. It walks over all of them.
func (t *Tree) Usage() map[*Account]Quota {
	usage := make(map[*Account]Quota)
	for _, v := range t.byID {
		bytes := EntryBytes(&v.entry)
		for at := v; at != nil; at = at.parent {
			if at.account == nil {
				continue
			}
			used := usage[at.account]
			used.Bytes += bytes
			if at != v {
				used.Entries++
			}
			usage[at.account] = used
		}
	}
	return usage
}

// count counts bytes of an entry, and entries at its place, in the tree and in all quotas that bound them.
// Less is counted modulo 2^64.
func (t *Tree) count(v *vertex, bytes, entries uint64) {
	t.bytes += bytes
	for at := v; at != nil; at = at.parent {
		if at.account == nil {
			continue
		}
		at.account.Used.Bytes += bytes
		if at != v {
			at.account.Used.Entries += entries
		}
	}
}

// refuseGrowth is the refusal of so many bytes and entries more at v, or below it; success if there is room.
func (t *Tree) refuseGrowth(v *vertex, bytes, entries uint64) outcome.Outcome {
	for ; v != nil; v = v.parent {
		if v.account != nil && !v.account.Fits(bytes, entries) {
			return outcome.Because(outcome.PreconditionFailed, v.account.FullText())
		}
	}
	if bytes != 0 && (t.bytes > t.most || bytes > t.most-t.bytes) {
		return outcome.Because(outcome.PreconditionFailed, NoSpaceText)
	}
	return outcome.Done()
}
