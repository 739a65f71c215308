package outcome

import "testing"

// The numbers and names are part of the protocol.
func TestStatusNumbers(t *testing.T) {
	for number, want := range map[Status]string{
		400000: "SUCCESS",
		400010: "BAD_REQUEST",
		400020: "UNAUTHORIZED",
		400030: "INTERNAL_ERROR",
		400040: "ABORTED",
		400050: "UNAVAILABLE",
		400060: "OVERLOADED",
		400070: "SCHEME_ERROR",
		400080: "GENERIC_ERROR",
		400090: "TIMEOUT",
		400100: "BAD_SESSION",
		400120: "PRECONDITION_FAILED",
		400130: "ALREADY_EXISTS",
		400140: "NOT_FOUND",
		400150: "SESSION_EXPIRED",
		400160: "CANCELLED",
		400180: "UNSUPPORTED",
		0:      "STATUS_0",
		400110: "STATUS_400110",
	} {
		if got := number.String(); got != want {
			t.Errorf("%d is %s, want %s", uint32(number), got, want)
		}
	}
}

func TestOutcome(t *testing.T) {
	if (Outcome{}).OK() {
		t.Error("the zero outcome is success")
	}
	if !Done().OK() || len(Done().Issues) != 0 {
		t.Errorf("Done() = %s", Done())
	}
	refusal := Refuse(NotFound, Issue{Message: "one"}, Issue{Code: 7, Severity: 2, Message: "two"})
	if refusal.OK() || refusal.String() != "NOT_FOUND [0/0] one [7/2] two" {
		t.Errorf("refusal is %s", refusal)
	}
	if got := Because(BadRequest, "not \xff").String(); got != "BAD_REQUEST [0/1] not \uFFFD" {
		t.Errorf("a refusal with a text is %s", got)
	}
}
