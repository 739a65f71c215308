package main

import "golang.org/x/sys/unix"

// clockError is what the kernel says of a clock that nothing keeps right.
const clockError = 5

// examineClock asks whether something keeps the clock right. Locks do not go by it; certificates, logins and
// what people are shown do.
func examineClock() finding {
	state, err := unix.Adjtimex(&unix.Timex{})
	switch {
	case err != nil:
		return found("clock", foundWarning, "the system does not say whether something keeps it right: %v",
			err)
	case state == clockError:
		return found("clock", foundWarning,
			"nothing keeps it right: certificates, logins and the times in the log go by it")
	}
	return found("clock", foundWell, "it is kept right")
}
