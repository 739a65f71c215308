package coordination

// HasSession reports whether a coordination node has a session.
func (m *Machine) HasSession(node NodeID, session SessionID) bool {
	n := m.nodes[node]
	return n != nil && n.sessions[session] != nil
}
