package model

import "fmt"

// Versions of data: coordd's own, clients of the protocol do not see them.

// UpdateData replaces the data of a semaphore that has the expected version, or makes one if 0 is expected, for an
// administrator. It returns why it does not.
func UpdateData(m *Model, name, data string, expected uint64) (Status, string) {
	if m.node == nil {
		return NotFound, "Kesus not found"
	}
	m.administers = true
	defer func() { m.administers = false }()
	sem := m.findSemaphore(name)
	switch {
	case len(name) > 1024:
		return BadRequest, "Semaphore name is too long"
	case len(data) > 1048576:
		return BadRequest, "Semaphore data is too large"
	case sem == nil && expected != 0:
		m.mark(markVersionMissing)
		return Aborted, fmt.Sprintf("Version %d was expected, but there is no such semaphore", expected)
	case sem == nil:
		return makeWithData(m, name, data)
	case sem.ephemeral:
		m.mark(markVersionEphemeral)
		return PreconditionFailed, "Ephemeral semaphores have no version"
	case sem.version != expected:
		m.mark(markVersionOther)
		return Aborted, fmt.Sprintf("Version %d was expected, but it has version %d", expected, sem.version)
	case sem.data == data:
		m.mark(markVersionSame)
		return Success, ""
	}
	if why := m.noRoom(0, len(data), len(sem.data)); why != "" {
		return PreconditionFailed, why
	}
	m.mark(markVersionUpdated)
	sem.data = data
	sem.count()
	sem.notify(true, false)
	return Success, ""
}

func makeWithData(m *Model, name, data string) (Status, string) {
	if len(m.node.semaphores) >= m.limits.Semaphores {
		return PreconditionFailed, "Too many semaphores already exist"
	}
	if why := m.noRoom(1, len(name)+len(data), 0); why != "" {
		return PreconditionFailed, why
	}
	m.mark(markVersionMade)
	sem := &semaphore{model: m, name: name, data: data, limit: Infinite}
	sem.count()
	m.node.semaphores = append(m.node.semaphores, sem)
	return Success, ""
}
