package calls

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/scheme/outcome"
)

// GRPCStatus returns the error with which a service of our own answers an outcome.
func GRPCStatus(ctx context.Context, answer outcome.Outcome, err error) error {
	if err != nil {
		if answer, err = Unfinished(ctx, err); err != nil {
			return err
		}
	}
	if answer.OK() {
		return nil
	}
	code := map[outcome.Status]codes.Code{
		outcome.Unauthorized: codes.PermissionDenied, outcome.AlreadyExists: codes.AlreadyExists,
		outcome.NotFound: codes.NotFound, outcome.SchemeError: codes.NotFound,
		outcome.BadRequest: codes.InvalidArgument, outcome.PreconditionFailed: codes.FailedPrecondition,
		outcome.Unavailable: codes.Unavailable, outcome.Aborted: codes.Aborted,
	}[answer.Status]
	if code == codes.OK {
		code = codes.Internal
	}
	text := answer.Status.String()
	if len(answer.Issues) > 0 {
		text = answer.Issues[0].Message
	}
	return status.Error(code, text)
}
