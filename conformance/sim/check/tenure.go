package check

import "time"

// Tenure is a time during which a client had proof that it holds tokens: from the message that proved it until it began
// to release them or, whichever is earlier, its session's timeout after the last message of a stream of it. Times are
// those of a clock that all clients share.
type Tenure struct {
	Name    string
	Session uint64
	Count   uint64
	Order   uint64 // order id, 0 if the client did not ask for it
	From    time.Duration
	Until   time.Duration
}
