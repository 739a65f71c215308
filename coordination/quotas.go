package coordination

import (
	"fmt"
	"slices"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// Quotas of paths. The path tree has them and counts its own rows; the machine counts what nodes hold, by the
// list of quotas that each node keeps: paths cannot be moved.

func (m judge) setQuota(c *SetQuota) (scheme.Step, outcome.Outcome) {
	if !m.Subject(c.Caller).Exempt {
		return nil, outcome.Denied("Only administrators may set quotas")
	}
	set, answer := m.tree.SetQuota(c.Path, c.Quota)
	if set == nil {
		return nil, answer
	}
	return func() {
		set()
		m.countQuotas()
	}, answer
}

// countQuotas counts what is used of every quota anew.
func (m *Machine) countQuotas() {
	for a, used := range m.quotasUsed() {
		a.Used = used
	}
	for n := m.inOrder.first; n != nil; n = n.place.next {
		n.quotas = m.tree.Accounts(n.path)
	}
}

// quotasUsed returns the usage of every quota, by a walk over all paths.
func (m *Machine) quotasUsed() map[*scheme.Account]scheme.Quota {
	usage := m.tree.Usage()
	if len(usage) == 0 {
		return usage
	}
	for n := m.inOrder.first; n != nil; n = n.place.next {
		for _, a := range m.tree.Accounts(n.path) {
			used := usage[a]
			used.Bytes += n.used
			usage[a] = used
		}
	}
	return usage
}

// checkQuotas is the part of Check that is about quotas.
func (m *Machine) checkQuotas() (broken []error) {
	for a, used := range m.quotasUsed() {
		if a.Used != used {
			broken = append(broken, fmt.Errorf("%+v is used of the quota of %s, it says %+v", used, a.Path, a.Used))
		}
	}
	for n := m.inOrder.first; n != nil; n = n.place.next {
		if !slices.Equal(n.quotas, m.tree.Accounts(n.path)) {
			broken = append(broken, fmt.Errorf("coordination node %d does not have the quotas of %s", n.id, n.path))
		}
	}
	return broken
}
