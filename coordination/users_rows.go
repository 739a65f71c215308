package coordination

import (
	"cmp"
	"maps"
	"slices"

	"github.com/coordd/coordd/coordination/accounts"
)

// UserRow is a user who can log in.
type UserRow struct{ accounts.User }

// SigningKeyRow is a key that login tokens are signed with.
type SigningKeyRow struct{ accounts.SigningKey }

// Key implements Row.
func (r UserRow) Key() RowKey { return accountKey(RowUser, r.ID) }

// Key implements Row.
func (r SigningKeyRow) Key() RowKey { return accountKey(RowSigningKey, r.ID) }

// accountKey is the key of the row of a user or of a signing key.
func accountKey(kind RowKind, id accounts.Position) RowKey {
	return RowKey{Kind: kind, ID: id.Index, Place: Place(id.Place)}
}

func (r UserRow) hash() uint64 {
	return uint64(
		newRowHash(RowUser).number(r.ID.Index).text(r.Name).text(r.PasswordHash).flag(r.Administrator).
			number(r.Version.Index).later(1, uint64(r.ID.Place)).later(2, uint64(r.Version.Place)))
}

func (r SigningKeyRow) hash() uint64 {
	return uint64(newRowHash(RowSigningKey).number(r.ID.Index).bytes(r.Secret).number(r.CreatedMillis).
		later(1, uint64(r.ID.Place)))
}

// accountRows knows which users and keys differ from the last checkpoint. There are few of them, so they need
// none of rowTracker's care: a freeze captures them at once.
type accountRows struct {
	changed map[RowKey]struct{}
	hashes  map[RowKey]uint64 // of the rows of the last checkpoint
	base    uint64            // their sum
}

func (a *accountRows) touch(key RowKey) {
	if a.changed == nil {
		a.changed = make(map[RowKey]struct{})
	}
	a.changed[key] = struct{}{}
}

// stored notes a row that a checkpoint holds.
func (a *accountRows) stored(row Row) {
	if a.hashes == nil {
		a.hashes = make(map[RowKey]uint64)
	}
	hash := row.hash()
	a.base += hash - a.hashes[row.Key()]
	a.hashes[row.Key()] = hash
}

// captureAccounts adds to a checkpoint what has changed since the one before, and returns the sum of all
// hashes.
func (cp *Checkpoint) captureAccounts() uint64 {
	m := cp.machine
	rows := &m.accountRows
	if len(rows.changed) == 0 {
		return rows.base
	}
	for _, row := range rowsOf(m.accounts) {
		if _, changed := rows.changed[row.Key()]; changed {
			delete(rows.changed, row.Key())
			rows.stored(row)
			cp.ready = append(cp.ready, row)
		}
	}
	gone := slices.SortedFunc(maps.Keys(rows.changed), func(a, b RowKey) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Place, b.Place))
	})
	for _, key := range gone {
		rows.base -= rows.hashes[key]
		delete(rows.hashes, key)
		cp.ready = append(cp.ready, DeletedRow{key})
	}
	rows.changed = nil
	return rows.base
}

// rowsOf is every user and then every key, in ascending order of ids.
func rowsOf(a *accounts.Accounts) []Row {
	var rows []Row
	for _, u := range slices.SortedFunc(slices.Values(a.Users()),
		func(u, v accounts.User) int { return u.ID.Compare(v.ID) }) {
		rows = append(rows, UserRow{u})
	}
	for _, k := range a.SigningKeys() {
		rows = append(rows, SigningKeyRow{k})
	}
	return rows
}

// restoreAccount takes a row of a checkpoint. Rows come in ascending order of ids.
func (r *Restorer) restoreAccount(row Row) {
	switch row := row.(type) {
	case UserRow:
		r.users = append(r.users, row.User)
	case SigningKeyRow:
		r.keys = append(r.keys, row.SigningKey)
	}
	r.machine.accountRows.stored(row)
}
