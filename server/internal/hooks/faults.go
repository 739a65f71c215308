package hooks

// Faults decides what goes wrong on demand. Its methods are called by many goroutines at once, and must not block.
type Faults interface{}
