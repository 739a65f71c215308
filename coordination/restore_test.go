package coordination

import (
	"strings"
	"testing"

	"github.com/coordd/coordd/scheme"
)

// Rows that do not fit together are refused.
func TestRestoreRefuses(t *testing.T) {
	sound := func() (*rig, []Row) {
		r := newRig(t)
		r.createNode("/local/a", NodeConfig{})
		stream, _ := r.attach(AttachRequest{Path: "/local/a", TimeoutMillis: 1000})
		r.request(stream, 1, tryLock)
		r.applyAll()
		return r, r.machine.AllRows()
	}
	// closed replaces the closing row by one whose digest is right.
	closed := func(rows []Row) []Row {
		last := rows[len(rows)-1].(MachineRow)
		last.Digest = last.hash()
		for _, row := range rows[:len(rows)-1] {
			last.Digest += row.hash()
		}
		return append(rows[:len(rows)-1:len(rows)-1], last)
	}
	replace := func(rows []Row, change func(Row) Row) []Row {
		var changed []Row
		for _, row := range rows {
			if row = change(row); row != nil {
				changed = append(changed, row)
			}
		}
		return closed(changed)
	}
	for _, c := range []struct {
		want   string
		change func([]Row) []Row
	}{
		{"has no closing row", func(rows []Row) []Row { return rows[:len(rows)-1] }},
		{"have digest", func(rows []Row) []Row {
			rows[len(rows)-1] = MachineRow{Index: 9, NextNode: 2}
			return rows
		}},
		{"a coordination node that is not there", func(rows []Row) []Row {
			return replace(rows, func(row Row) Row {
				if row.Key().Kind == RowNode {
					return nil
				}
				return row
			})
		}},
		{"which are not both there", func(rows []Row) []Row {
			return replace(rows, func(row Row) Row {
				if row.Key().Kind == RowSession {
					return nil
				}
				return row
			})
		}},
		{"the second that ties", func(rows []Row) []Row {
			l := rows[len(rows)-2].(LinkRow)
			l.Order++
			return append(rows[:len(rows)-1:len(rows)-1], l, rows[len(rows)-1])
		}},
		{"of an unexpected kind", func(rows []Row) []Row {
			return append(rows, DeletedRow{RowKey{Kind: RowLink, Node: 1, ID: 1}})
		}},
		{"path tree", func(rows []Row) []Row {
			return replace(rows, func(row Row) Row {
				if row.Key() == (RowKey{Kind: RowPath, ID: 1}) {
					return nil
				}
				return row
			})
		}},
		{"although it fits", func(rows []Row) []Row {
			return replace(rows, func(row Row) Row {
				if l, ok := row.(LinkRow); ok {
					l.Owner = false
					return l
				}
				return row
			})
		}},
	} {
		t.Run(c.want, func(t *testing.T) {
			_, rows := sound()
			if err := restore(c.change(rows)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, rows := sound(); restore(rows) != nil {
		t.Error(restore(rows))
	}
}

func restore(rows []Row) error {
	restorer, err := NewRestorer("/local", DefaultLimits())
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := restorer.Add(row); err != nil {
			return err
		}
	}
	_, err = restorer.Finish()
	return err
}

// Each field of each row counts in the digest, so that servers that differ in any of them notice. The
// machine's row is the exception: its index and counter are not part of the sum.
func TestEveryFieldIsHashed(t *testing.T) {
	entry := scheme.Entry{ID: 2, Parent: 1, Name: "n", Kind: scheme.CoordinationNode, Node: 3, Owner: "o",
		Permissions: []scheme.Permission{{Subject: "s", Names: []string{"x", "y"}}},
		Created:     scheme.Stamp{PlanStep: 4, TxID: 5}}
	rows := []Row{
		PathRow{entry}, NodeRow{ID: 1}, SessionRow{Node: 1, ID: 1}, SemaphoreRow{Node: 1, ID: 1},
		LinkRow{Node: 1, Order: 1},
		ResourceRow{Node: 1, ID: 1}, MachineRow{NextNode: 1}, DeletedRow{},
	}
	seen := make(map[uint64]Row)
	for _, row := range rows {
		for _, variant := range variants(row) {
			if other, found := seen[variant.hash()]; found {
				t.Errorf("%+v and %+v have the same hash", variant, other)
			}
			seen[variant.hash()] = variant
		}
	}
}
