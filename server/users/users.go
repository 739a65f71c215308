package users

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/auth"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/meters"
)

// Service serves Ydb.Auth.V1.AuthService (surface.md §5), and manages the users who log in with a password
// (adminpb/admin.proto).
type Service struct {
	Ydb_Auth_V1.UnimplementedAuthServiceServer
	adminpb.UnimplementedUsersServer
	*calls.Runner
	Auth   *auth.Authenticator
	Meters *meters.Meters
	Logger *slog.Logger
}

// manager is the caller of a command about users. Rights count, except on the administrator's socket.
func (s *Service) manager(ctx context.Context) (coordination.Caller, error) {
	by := coordination.Caller{Subject: auth.Of(ctx).Name, Enforced: !auth.Of(ctx).Owns()}
	if s.Auth.IsLocal(ctx) {
		by.Enforced = by.Enforced && s.Auth.Required
		return by, nil
	}
	if by.Enforced && by.Subject == "" {
		return by, errNotAdministrator
	}
	return by, nil
}

var errNotAdministrator = status.Error(codes.PermissionDenied,
	"Only administrators may manage users: "+auth.AsAdministrator)

// Add implements adminpb.UsersServer.
func (s *Service) Add(ctx context.Context, r *adminpb.AddRequest) (*adminpb.AddResponse, error) {
	if err := ValidName(r.GetName()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	err := s.withPassword(ctx, r.GetPassword(),
		func(call coordination.CallID, by coordination.Caller, hash string) coordination.Command {
			return &coordination.AddUser{CallID: call, Caller: by, Name: r.GetName(), PasswordHash: hash,
				Administrator: r.GetAdministrator()}
		}, func(by coordination.Caller) bool { return s.mayManage(by) || s.Auth.IsLocal(ctx) && s.noUsers() })
	return &adminpb.AddResponse{}, err
}

// ValidName returns an error unless a new user may have the name. An @ is not allowed because
// reporter@cert, all-users@well-known and root@builtin are subjects of another kind.
func ValidName(name string) error {
	if name == "" || len(name) > accounts.MaxUserNameBytes ||
		strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '@' }) {
		return fmt.Errorf("user name: want 1 to %d printable ASCII characters without spaces and @",
			accounts.MaxUserNameBytes)
	}
	return nil
}

// SetPassword implements adminpb.UsersServer. Who changes the own password has to show it, administrators
// too: a token that was stolen must not become a password.
func (s *Service) SetPassword(ctx context.Context,
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
func (s *Service) checkOwnPassword(ctx context.Context, r *adminpb.SetPasswordRequest) error {
	name := auth.Of(ctx).Name
	if name == "" || name != r.GetName() {
		return nil
	}
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if err := s.Group.CatchUp(ctx); err != nil {
		return calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	user, _ := s.Group.Accounts().User(name)
	right, err := s.Auth.CheckPassword(ctx, auth.Attempt{User: name, Source: auth.SourceOf(ctx)},
		r.GetOwnPassword(), user.PasswordHash, s.Logger)
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

// withPassword hashes a password and runs the command that stores it. A caller without the right is refused before
// anything is hashed, so that strangers cannot make the server work.
func (s *Service) withPassword(ctx context.Context, password string,
	build func(coordination.CallID, coordination.Caller, string) coordination.Command,
	allowed func(coordination.Caller) bool) error {
	by, err := s.manager(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if may, err := s.finds(ctx, func() bool { return allowed(by) }); err != nil || !may {
		return cmp.Or(err, errNotAdministrator)
	}
	hash, err := s.Auth.Passwords.Hash(ctx, password)
	if err != nil {
		return passwordStatus(ctx, err)
	}
	return s.run(ctx, func(call coordination.CallID) coordination.Command { return build(call, by, hash) })
}

// Remove implements adminpb.UsersServer.
func (s *Service) Remove(ctx context.Context, r *adminpb.RemoveRequest) (*adminpb.RemoveResponse, error) {
	by, err := s.manager(ctx)
	if err == nil {
		err = s.run(ctx, func(call coordination.CallID) coordination.Command {
			return &coordination.RemoveUser{CallID: call, Caller: by, Name: r.GetName()}
		})
	}
	return &adminpb.RemoveResponse{}, err
}

// List implements adminpb.UsersServer.
func (s *Service) List(ctx context.Context, _ *adminpb.ListRequest) (*adminpb.ListResponse, error) {
	by, err := s.manager(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	if err := s.Group.CatchUp(ctx); err != nil {
		return nil, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	if !s.mayManage(by) && !(s.Auth.IsLocal(ctx) && s.noUsers()) {
		return nil, errNotAdministrator
	}
	response := &adminpb.ListResponse{}
	for _, user := range s.Group.Accounts().Users() {
		response.Users = append(response.Users,
			&adminpb.ListResponse_User{Name: user.Name, Administrator: user.Administrator})
	}
	return response, nil
}

// RotateKey implements adminpb.UsersServer.
func (s *Service) RotateKey(ctx context.Context, _ *adminpb.RotateKeyRequest) (*adminpb.RotateKeyResponse,
	error) {
	by, err := s.manager(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	newest, _ := auth.NewestKey(s.Group.Accounts())
	answer, err := s.rotateSigningKey(ctx, by, newest.ID, math.MaxUint64)
	return &adminpb.RotateKeyResponse{}, calls.GRPCStatus(ctx, answer, err)
}

// mayManage reports whether a caller may do everything, as far as this server knows at the moment.
func (s *Service) mayManage(by coordination.Caller) bool {
	return !by.Enforced || s.Group.Accounts().IsAdministrator(by.Subject)
}

// finds reports whether something holds by what this server knows. It looks again after a read barrier before
// it denies that: another server may just have acknowledged it.
func (s *Service) finds(ctx context.Context, holds func() bool) (bool, error) {
	if holds() {
		return true, nil
	}
	if err := s.Group.CatchUp(ctx); err != nil {
		return false, calls.GRPCStatus(ctx, outcome.Outcome{}, err)
	}
	return holds(), nil
}

func (s *Service) noUsers() bool { return len(s.Group.Accounts().Users()) == 0 }

// run executes a command about users.
func (s *Service) run(ctx context.Context, build func(coordination.CallID) coordination.Command) error {
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	answer, err := s.Execute(ctx, build)
	return calls.GRPCStatus(ctx, answer, err)
}

// AddFirst adds the first administrator, unless there are users.
func (s *Service) AddFirst(ctx context.Context, name, password string) error {
	if name == "" || len(s.Group.Accounts().Users()) > 0 {
		return nil
	}
	hash, err := s.Auth.Passwords.Hash(ctx, password)
	if err != nil {
		return fmt.Errorf("initial administrator: %w", err)
	}
	ctx, cancel := s.InTime(ctx)
	defer cancel()
	answer, err := s.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.AddUser{CallID: call, Name: name, PasswordHash: hash, Administrator: true,
			OnlyFirst: true}
	})
	if err == nil && !answer.OK() {
		err = errors.New(answer.String())
	}
	if err != nil {
		return fmt.Errorf("initial administrator: %w", err)
	}
	s.Logger.Info("added the initial administrator", "user", name)
	return nil
}

func (s *Service) rotateSigningKey(ctx context.Context, by coordination.Caller,
	after accounts.Position, dropBeforeMillis uint64) (outcome.Outcome, error) {
	secret, err := auth.NewSigningKey()
	if err != nil {
		return outcome.Outcome{}, err
	}
	return s.Execute(ctx, func(call coordination.CallID) coordination.Command {
		return &coordination.RotateSigningKey{CallID: call, Caller: by, Secret: secret, After: after,
			StampMillis: s.Group.Shell().WallMillis(), DropBeforeMillis: dropBeforeMillis}
	})
}
