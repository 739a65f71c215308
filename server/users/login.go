package users

import (
	"context"
	"errors"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/meters"
)

// Login gives a token for a user's name and password.
func (s *Service) Login(ctx context.Context, r *Ydb_Auth.LoginRequest) (*Ydb_Auth.LoginResponse, error) {
	op, err := s.Operate(ctx, r.GetOperationParams(),
		func(ctx context.Context) (proto.Message, outcome.Outcome, error) {
			token, answer, err := s.login(ctx, r.GetUser(), r.GetPassword(), s.Auth.SignLogin)
			return &Ydb_Auth.LoginResult{Token: token}, answer, err
		})
	return &Ydb_Auth.LoginResponse{Operation: op}, err
}

// SignIn returns a token of the console for a user's name and password.
func (s *Service) SignIn(ctx context.Context, name, password string) (token string, err error) {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	token, answer, err := s.login(ctx, name, password, s.Auth.SignConsole)
	switch answer.Status {
	case outcome.Unauthorized:
		return "", status.Error(codes.Unauthenticated, answer.Issues[0].Message)
	case outcome.Overloaded:
		return "", status.Error(codes.ResourceExhausted, answer.Issues[0].Message)
	}
	return token, calls.GRPCStatus(ctx, answer, err)
}

// signer makes a token.
type signer func(user accounts.User, key accounts.SigningKey, now time.Time) (string, error)

func (s *Service) login(ctx context.Context, name, password string, sign signer) (token string,
	answer outcome.Outcome, err error) {
	if sent, found := calls.Database(ctx); found && sent != "" && !s.Auth.Serves(sent) {
		return "", outcome.Because(outcome.SchemeError, "No database found"), nil
	}
	if err := s.Group.CatchUp(ctx); err != nil {
		return "", outcome.Outcome{}, err
	}
	user, _ := s.Group.Accounts().User(name)
	right, err := s.Auth.CheckPassword(ctx, auth.Attempt{User: name, Source: auth.SourceOf(ctx)}, password,
		user.PasswordHash, s.Logger)
	var wait *auth.WaitError
	switch {
	case errors.As(err, &wait):
		s.Meters.Reject(meters.RejectedWait)
		return "", outcome.Because(outcome.Overloaded, wait.Error()), nil
	case errors.Is(err, auth.ErrOverloaded), err != nil && errors.Is(context.Cause(ctx), calls.ErrPatience):
		s.Meters.Reject(meters.RejectedOverload)
		return "", outcome.Because(outcome.Overloaded, "Too many logins at once, try again"), nil
	case errors.Is(err, auth.ErrStoredHash):
		return "", outcome.Because(outcome.InternalError, err.Error()), nil
	case err != nil:
		return "", outcome.Outcome{}, err
	case !right:
		s.Meters.Reject(meters.RejectedPassword)
		return "", outcome.Refuse(outcome.Unauthorized, outcome.Issue{Code: uint32(outcome.Unauthorized),
			Severity: outcome.SeverityError, Message: "Invalid user or password"}), nil
	}
	key, answer, err := s.signingKey(ctx)
	if err != nil || !answer.OK() {
		return "", answer, err
	}
	token, err = sign(user, key, time.Now())
	return token, answer, err
}

// signingKey returns the key that signs now. The first login of a cluster, and the first after
// auth.SigningKeyLifetime, makes a new one.
func (s *Service) signingKey(ctx context.Context) (accounts.SigningKey, outcome.Outcome, error) {
	newest, found := auth.NewestKey(s.Group.Accounts())
	if found && time.Since(time.UnixMilli(int64(newest.CreatedMillis))) < auth.SigningKeyLifetime {
		return newest, outcome.Done(), nil
	}
	answer, err := s.rotateSigningKey(ctx, coordination.Caller{}, newest.ID,
		auth.OutdatedKeys(s.Group.Accounts()))
	if err != nil || !answer.OK() && answer.Status != outcome.PreconditionFailed {
		return newest, answer, err
	}
	// A refusal means that another login was first; its key is as good.
	if newest, found = auth.NewestKey(s.Group.Accounts()); !found {
		return newest, answer, nil
	}
	return newest, outcome.Done(), nil
}
