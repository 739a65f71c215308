package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
)

// userService manages the users who log in with a password (adminpb/admin.proto).
type userService struct {
	adminpb.UnimplementedUsersServer
	*Server
}

// manager is the caller of a command about users. Rights count, except for whoever has opened the
// administrator's socket.
func (s userService) manager(ctx context.Context) (coordination.Caller, error) {
	by := coordination.Caller{Subject: auth.Of(ctx).Name, Enforced: auth.Of(ctx) != auth.LocalAdministrator}
	if s.isLocal(ctx) {
		by.Enforced = by.Enforced && s.auth.Required
		return by, nil
	}
	if by.Enforced && by.Subject == "" {
		return by, errNotAdministrator
	}
	return by, nil
}

var errNotAdministrator = status.Error(codes.PermissionDenied,
	"Only administrators may manage users: "+asAdministrator)

// Add implements adminpb.UsersServer.
func (s userService) Add(ctx context.Context, r *adminpb.AddRequest) (*adminpb.AddResponse, error) {
	if err := validNewUser(r.GetName()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	err := s.withPassword(ctx, r.GetPassword(),
		func(call coordination.CallID, by coordination.Caller, hash string) coordination.Command {
			return &coordination.AddUser{CallID: call, Caller: by, Name: r.GetName(), PasswordHash: hash,
				Administrator: r.GetAdministrator()}
		}, func(by coordination.Caller) bool { return s.mayManage(by) || s.isLocal(ctx) && s.noUsers() })
	return &adminpb.AddResponse{}, err
}

// validNewUser says what the name of a new user has to be, if name is none. An @ is not allowed because
// reporter@cert, all-users@well-known and root@builtin are subjects of another kind.
func validNewUser(name string) error {
	if name == "" || len(name) > accounts.MaxUserNameBytes ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '@' }) {
		return fmt.Errorf("user name: want 1 to %d printable ASCII characters without spaces and @",
			accounts.MaxUserNameBytes)
	}
	return nil
}

// SetPassword implements adminpb.UsersServer. Who changes the own password has to show it, administrators
// too: a token that was stolen must not become a password.
func (s userService) SetPassword(ctx context.Context,
	r *adminpb.SetPasswordRequest) (*adminpb.SetPasswordResponse, error) {
	if err := s.checkOwnPassword(ctx, r); err != nil {
		return nil, err
	}
	err := s.withPassword(ctx, r.GetPassword(),
		func(call coordination.CallID, by coordination.Caller, hash string) coordination.Command {
			return &coordination.SetPassword{CallID: call, Caller: by, Name: r.GetName(), PasswordHash: hash}
		}, func(by coordination.Caller) bool {
			return s.mayManage(by) || by.Subject != "" && by.Subject == r.GetName()
		})
	return &adminpb.SetPasswordResponse{}, err
}

var errOwnPassword = status.Error(codes.PermissionDenied,
	"Your present password is wanted to change it, and this is not it")

// checkOwnPassword refuses callers who change their own password and do not know it.
func (s userService) checkOwnPassword(ctx context.Context, r *adminpb.SetPasswordRequest) error {
	name := auth.Of(ctx).Name
	if name == "" || name != r.GetName() {
		return nil
	}
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if err := s.group.CatchUp(ctx); err != nil {
		return calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	user, _ := s.group.Accounts().User(name)
	right, err := s.auth.CheckPassword(ctx, auth.Attempt{User: name, Source: auth.SourceOf(ctx)},
		r.GetOwnPassword(), user.PasswordHash, s.config.Logger)
	var wait *auth.WaitError
	switch {
	case errors.As(err, &wait):
		return status.Error(codes.ResourceExhausted, wait.Error())
	case err != nil:
		return passwordStatus(ctx, err)
	case !right:
		return errOwnPassword
	}
	return nil
}

// passwordStatus is an error of hashing a password as this service answers it.
func passwordStatus(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, auth.ErrPasswordLength):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, auth.ErrOverloaded), errors.Is(context.Cause(ctx), calls.ErrPatience):
		return status.Error(codes.ResourceExhausted, auth.ErrOverloaded.Error())
	case errors.Is(err, auth.ErrStoredHash):
		return status.Error(codes.Internal, err.Error())
	}
	return status.FromContextError(err).Err()
}

// withPassword hashes a password and runs the command that stores it. Who may not do it is told before
// anything is hashed, so that strangers cannot make the server work.
func (s userService) withPassword(ctx context.Context, password string,
	build func(coordination.CallID, coordination.Caller, string) coordination.Command,
	allowed func(coordination.Caller) bool) error {
	by, err := s.manager(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if may, err := s.finds(ctx, func() bool { return allowed(by) }); err != nil || !may {
		return cmp.Or(err, errNotAdministrator)
	}
	hash, err := s.auth.Passwords.Hash(ctx, password)
	if err != nil {
		return passwordStatus(ctx, err)
	}
	return s.run(ctx, func(call coordination.CallID) coordination.Command { return build(call, by, hash) })
}

// Remove implements adminpb.UsersServer.
func (s userService) Remove(ctx context.Context, r *adminpb.RemoveRequest) (*adminpb.RemoveResponse, error) {
	by, err := s.manager(ctx)
	if err == nil {
		err = s.run(ctx, func(call coordination.CallID) coordination.Command {
			return &coordination.RemoveUser{CallID: call, Caller: by, Name: r.GetName()}
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
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	if err := s.group.CatchUp(ctx); err != nil {
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	if !s.mayManage(by) && !(s.isLocal(ctx) && s.noUsers()) {
		return nil, errNotAdministrator
	}
	response := &adminpb.ListResponse{}
	for _, user := range s.group.Accounts().Users() {
		response.Users = append(response.Users,
			&adminpb.ListResponse_User{Name: user.Name, Administrator: user.Administrator})
	}
	return response, nil
}

// RotateKey implements adminpb.UsersServer.
func (s userService) RotateKey(ctx context.Context, _ *adminpb.RotateKeyRequest) (*adminpb.RotateKeyResponse,
	error) {
	by, err := s.manager(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	newest, _ := auth.NewestKey(s.group.Accounts())
	answer, err := s.rotateSigningKey(ctx, by, newest.ID, math.MaxUint64)
	return &adminpb.RotateKeyResponse{}, calls.GRPCStatus(ctx, answer, err)
}

// mayManage reports whether a caller may do everything, as far as this server knows at the moment.
func (s userService) mayManage(by coordination.Caller) bool {
	return !by.Enforced || s.group.Accounts().IsAdministrator(by.Subject)
}

// finds reports whether something holds by what this server knows. It looks again after a read barrier before
// it denies that: another server may just have acknowledged it.
func (s *Server) finds(ctx context.Context, holds func() bool) (bool, error) {
	if holds() {
		return true, nil
	}
	if err := s.group.CatchUp(ctx); err != nil {
		return false, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	return holds(), nil
}

func (s userService) noUsers() bool { return len(s.group.Accounts().Users()) == 0 }

// run executes a command about users.
func (s userService) run(ctx context.Context, build func(coordination.CallID) coordination.Command) error {
	ctx, cancel := s.calls.InTime(ctx)
	defer cancel()
	answer, err := s.calls.Execute(ctx, build)
	return calls.GRPCStatus(ctx, answer, err)
}
