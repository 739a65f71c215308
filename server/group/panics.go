package group

import (
	"fmt"
	"runtime/debug"
)

// InvariantError is a panic of the group. The state in memory cannot be trusted any more, so the server
// stops; nothing that was acknowledged is lost.
type InvariantError struct {
	// Reason is what the code panicked with.
	Reason string
	// Stack is where.
	Stack string
}

// Error is the reason, without the stack.
func (e *InvariantError) Error() string { return "broken invariant: " + e.Reason }

// failOnPanic makes a panic within a turn the reason for which the server ends. The turn is held.
func (g *Group) failOnPanic() {
	if reason := recover(); reason != nil {
		err := &InvariantError{Reason: fmt.Sprint(reason), Stack: string(debug.Stack())}
		g.logger.Error("the group cannot go on", "error", err, "stack", err.Stack)
		g.close()
		g.failed(err)
	}
}
