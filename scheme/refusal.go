package scheme

import (
	"fmt"

	"github.com/coordd/coordd/scheme/outcome"
)

// RefuseConfigPath is the answer to a CreateNode or AlterNode whose config names a path (coordination.md §1.1
// step 3, §1.2 step 5).
func RefuseConfigPath() outcome.Outcome {
	return outcome.Because(outcome.BadRequest, "Setting path is not allowed")
}

// checkFailed has the shape in which the reference reports that a check of an existing or wanted path failed.
func checkFailed(status outcome.Status, path Path, reason string) outcome.Outcome {
	return outcome.Because(status, fmt.Sprintf("Check failed: path: '%s', error: %s", Shown(path.String()),
		reason))
}

func pathDoesNotExist() outcome.Outcome {
	return outcome.Refuse(outcome.SchemeError,
		outcome.Issue{Code: outcome.CodePathNotExist, Severity: outcome.SeverityError,
			Message: "Path does not exist"})
}
