package model

// Limits of coordd that the reference does not have: how many bytes a node may hold, and how large a description may be.

// bytes is what the node holds: the names and data of its semaphores, and the data of owners and waiters.
func (n *node) bytes() int {
	sum := 0
	for _, sem := range n.semaphores {
		sum += len(sem.name) + len(sem.data)
		for _, l := range sem.owners {
			sum += len(l.data)
		}
		for _, l := range sem.waiters {
			sum += len(l.data)
		}
	}
	return sum
}

// hasRoom tells whether so many bytes may take the place of so many others. What does not grow always may.
func (m *Model) hasRoom(instead, of int) bool {
	return instead <= of || m.limits.Bytes == 0 || m.node.bytes()-of+instead <= m.limits.Bytes
}

func (m *Model) refuseBytes(c call, branch Mark) {
	m.refuse(c, branch, PreconditionFailed, "Coordination node has no space left")
}

// describable tells whether the answer to a describe may be sent. Every part counts its data and 64 bytes.
func (m *Model) describable(c call, sem *semaphore) bool {
	size := 64 + len(sem.name) + len(sem.data)
	if c.IncludeOwners {
		for _, l := range sem.owners {
			size += 64 + len(l.data)
		}
	}
	if c.IncludeWaiters {
		for _, l := range sem.waiters {
			size += 64 + len(l.data)
		}
	}
	return m.limits.Described == 0 || size <= m.limits.Described
}
