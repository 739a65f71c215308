// Package turn lets several goroutines do one piece of serial work without a goroutine that has to be woken
// for each piece: the goroutine that brings work does it, if no other is at work just then.
//
// # Why
//
// The log and the group that reads it are each touched by one goroutine at a time. A goroutine of their own
// would be the obvious way, but to wake it costs 5 to 50 µs, which is more than most of the work, and a lock
// request would pay that twice on its way in and twice on its way out. A mutex around the work would avoid that, but a
// goroutine that brings work would wait while another works: the goroutine that writes the log would wait for a
// client's, and a slow turn would hold up everybody.
//
// # How
//
// Three parties share one Turn and the place where work is left, which has a lock of its own:
//
//	a bringer      leaves its work, then calls TryLock. If that succeeds it works, and unlocks. If not, it goes away:
//	               it never waits.
//	the holder     does all work that was left, its own or others', until its share is done, and unlocks.
//	the owner      is a goroutine that listens to the Bell. It locks, and waits for the turn if need be, and works.
//
// What keeps work from being forgotten is the order of two steps on either side. A bringer leaves its work
// before it tries for the turn; Unlock gives the turn back before it looks whether work was left. So of a
// bringer that found the turn taken and the holder that it was taken by, one sees the other: if TryLock
// failed, the holder's look is still to come, and it rings for the owner. TestNothingIsForgotten has many
// bringers at it.
//
// A bringer that must not work for long, because it is needed elsewhere, may unlock with work left. It need
// not ring: Unlock does.
package turn
