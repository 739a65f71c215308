package server

import (
	"context"
	"errors"
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
)

// userService manages the users who log in with a password (adminpb/admin.proto).
type userService struct {
	adminpb.UnimplementedUsersServer
	*Server
}

// manager is the caller of a command about users. Rights count, except on the same machine while authentication is not
// required; there, the data belongs to everybody as well. The very first user may be added from this machine only.
func (s userService) manager(ctx context.Context) (coordination.Caller, error) {
	by := coordination.Caller{Subject: auth.Of(ctx).Name, Enforced: s.auth.Required || !auth.FromLoopback(ctx)}
	if by.Enforced && by.Subject == "" && !auth.FromLoopback(ctx) {
		return by, errNotAdministrator
	}
	return by, nil
}

var errNotAdministrator = status.Error(codes.PermissionDenied,
	"Only administrators may manage users; the first one can be added on the machine that the server runs on")

// Add implements adminpb.UsersServer.
func (s userService) Add(ctx context.Context, r *adminpb.AddRequest) (*adminpb.AddResponse, error) {
	err := s.withPassword(ctx, r.GetPassword(), func(call coordination.Call, by coordination.Caller, hash string) coordination.Command {
		return &coordination.AddUser{Call: call, Caller: by, Name: r.GetName(), PasswordHash: hash, Administrator: r.GetAdministrator()}
	}, func(by coordination.Caller) bool { return s.mayManage(by) || auth.FromLoopback(ctx) && s.noUsers() })
	return &adminpb.AddResponse{}, err
}

// SetPassword implements adminpb.UsersServer.
func (s userService) SetPassword(ctx context.Context, r *adminpb.SetPasswordRequest) (*adminpb.SetPasswordResponse, error) {
	err := s.withPassword(ctx, r.GetPassword(), func(call coordination.Call, by coordination.Caller, hash string) coordination.Command {
		return &coordination.SetPassword{Call: call, Caller: by, Name: r.GetName(), PasswordHash: hash}
	}, func(by coordination.Caller) bool {
		return s.mayManage(by) || by.Subject != "" && by.Subject == r.GetName()
	})
	return &adminpb.SetPasswordResponse{}, err
}

// withPassword hashes a password and runs the command that stores it. Who may not do it is told before anything is
// hashed, so that strangers cannot make the server work.
func (s userService) withPassword(ctx context.Context, password string,
	build func(coordination.Call, coordination.Caller, string) coordination.Command, allowed func(coordination.Caller) bool) error {
	by, err := s.manager(ctx)
	if err != nil {
		return err
	}
	if !allowed(by) {
		return errNotAdministrator
	}
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	hash, err := s.auth.Passwords.Hash(ctx, password)
	switch {
	case errors.Is(err, auth.ErrPasswordLength):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, auth.ErrOverloaded), err != nil && errors.Is(context.Cause(ctx), errPatience):
		return status.Error(codes.ResourceExhausted, auth.ErrOverloaded.Error())
	case err != nil:
		return status.FromContextError(err).Err()
	}
	return s.run(ctx, func(call coordination.Call) coordination.Command { return build(call, by, hash) })
}

// Remove implements adminpb.UsersServer.
func (s userService) Remove(ctx context.Context, r *adminpb.RemoveRequest) (*adminpb.RemoveResponse, error) {
	by, err := s.manager(ctx)
	if err == nil {
		err = s.run(ctx, func(call coordination.Call) coordination.Command {
			return &coordination.RemoveUser{Call: call, Caller: by, Name: r.GetName()}
		})
	}
	return &adminpb.RemoveResponse{}, err
}

// List implements adminpb.UsersServer.
func (s userService) List(ctx context.Context, _ *adminpb.ListRequest) (*adminpb.ListResponse, error) {
	by, err := s.manager(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	if err := s.group.CatchUp(ctx); err != nil {
		return nil, grpcStatus(ctx, outcome.Outcome{}, err)
	}
	if !s.mayManage(by) && !(auth.FromLoopback(ctx) && s.noUsers()) {
		return nil, errNotAdministrator
	}
	response := &adminpb.ListResponse{}
	for _, user := range s.group.Accounts().Users() {
		response.Users = append(response.Users, &adminpb.ListResponse_User{Name: user.Name, Administrator: user.Administrator})
	}
	return response, nil
}

// RotateKey implements adminpb.UsersServer.
func (s userService) RotateKey(ctx context.Context, _ *adminpb.RotateKeyRequest) (*adminpb.RotateKeyResponse, error) {
	by, err := s.manager(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	newest, _ := auth.NewestKey(s.group.Accounts())
	answer, err := s.rotateSigningKey(ctx, by, newest.ID, math.MaxUint64)
	return &adminpb.RotateKeyResponse{}, grpcStatus(ctx, answer, err)
}

// mayManage tells whether a caller may do everything, as far as this server knows at the moment.
func (s userService) mayManage(by coordination.Caller) bool {
	return !by.Enforced || s.group.Accounts().IsAdministrator(by.Subject)
}

func (s userService) noUsers() bool { return len(s.group.Accounts().Users()) == 0 }

// run executes a command about users.
func (s userService) run(ctx context.Context, build func(coordination.Call) coordination.Command) error {
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	answer, err := s.execute(ctx, build)
	return grpcStatus(ctx, answer, err)
}

// grpcStatus is an outcome as a service of our own answers it.
func grpcStatus(ctx context.Context, answer outcome.Outcome, err error) error {
	if err != nil {
		if answer, err = unfinished(ctx, err); err != nil {
			return err
		}
	}
	if answer.OK() {
		return nil
	}
	code := map[outcome.Status]codes.Code{
		outcome.Unauthorized: codes.PermissionDenied, outcome.AlreadyExists: codes.AlreadyExists, outcome.NotFound: codes.NotFound,
		outcome.BadRequest: codes.InvalidArgument, outcome.PreconditionFailed: codes.FailedPrecondition, outcome.Unavailable: codes.Unavailable,
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
