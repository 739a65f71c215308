//go:build linux

package abuse

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Coordination_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Scheme_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Scheme"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/server/adminpb"
)

// What users can do who may work below one directory, and what they could do if they were somebody else.

const (
	malPath  = "/local/mal"
	malNode  = malPath + "/n"
	deepPath = malPath + "/deep"

	rootPassword, annPassword = "the password of root", "the password of ann"
	mebibyte                  = 1 << 20
)

// caller is a connection and the token for its calls.
type caller struct {
	conn  *grpc.ClientConn
	token string
}

func (c caller) ctx(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "x-ydb-auth-ticket", c.token, "x-ydb-database", "/local")
}

// succeeded fails where a call did not have the status.
func succeeded(answer interface {
	GetOperation() *Ydb_Operations.Operation
}, err error) error {
	if err == nil && answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
		err = fmt.Errorf("%v", answer.GetOperation())
	}
	return err
}

func (c caller) makeDirectory(ctx context.Context, path string) error {
	return succeeded(Ydb_Scheme_V1.NewSchemeServiceClient(c.conn).MakeDirectory(c.ctx(ctx),
		&Ydb_Scheme.MakeDirectoryRequest{Path: path}))
}

func (c caller) grant(ctx context.Context, path, permission string, subjects ...string) error {
	actions := make([]*Ydb_Scheme.PermissionsAction, len(subjects))
	for i, subject := range subjects {
		actions[i] = &Ydb_Scheme.PermissionsAction{Action: &Ydb_Scheme.PermissionsAction_Grant{
			Grant: &Ydb_Scheme.Permissions{Subject: subject, PermissionNames: []string{permission}}}}
	}
	return succeeded(Ydb_Scheme_V1.NewSchemeServiceClient(c.conn).ModifyPermissions(c.ctx(ctx),
		&Ydb_Scheme.ModifyPermissionsRequest{Path: path, Actions: actions}))
}

// deepTree makes 29 directories, one in the other, with as many permissions as each may have.
func (c caller) deepTree(ctx context.Context) error {
	subjects := make([]string, 450)
	for level, path := 0, deepPath; level < 29; level, path = level+1, path+"/d" {
		for i := range subjects {
			subjects[i] = fmt.Sprintf("s%02d-%03d", level, i)
		}
		if err := c.makeDirectory(ctx, path); err != nil {
			return err
		}
		if err := c.grant(ctx, path, "ydb.granular.describe_schema", subjects...); err != nil {
			return err
		}
	}
	return nil
}

func describeDeep(ctx context.Context, c caller) error {
	_, err := Ydb_Scheme_V1.NewSchemeServiceClient(c.conn).DescribePath(c.ctx(ctx),
		&Ydb_Scheme.DescribePathRequest{Path: deepPath + strings.Repeat("/d", 28)})
	return err
}

// largeSemaphore has 55 sessions own a semaphore with a mebibyte of data each.
func (c caller) largeSemaphore(ctx context.Context) error {
	for i := range 55 {
		s, err := raw.Open(c.ctx(ctx), c.conn, &raw.Start{Path: malNode, TimeoutMillis: 1_800_000})
		if err == nil && i == 0 {
			err = s.Create("large", 100)
		}
		if err == nil {
			err = s.Hold("large", make([]byte, mebibyte))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fill makes semaphores with a mebibyte of data until there is no room.
func fill(ctx context.Context, c caller) error {
	s, err := raw.Open(c.ctx(ctx), c.conn, &raw.Start{Path: malNode, TimeoutMillis: 60_000})
	for i := 0; err == nil; i++ {
		name := fmt.Sprint("fill-", time.Now().UnixNano())
		if err = s.Create(name, 1); err == nil {
			err = s.Update(name, make([]byte, mebibyte))
		}
	}
	return err
}

// manySessions opens sessions with long descriptions and long timeouts, as many as come.
func manySessions(ctx context.Context, c caller) error {
	_, err := raw.Open(c.ctx(ctx), c.conn, &raw.Start{Path: malNode, TimeoutMillis: 1_800_000,
		Description: strings.Repeat("d", 1024)})
	return err
}

// byClient is an attack of a goroutine that has a client of its own, with the user's token.
func byClient(token string, each func(ctx context.Context, c caller) error) func(context.Context, string) {
	return func(ctx context.Context, address string) {
		conns, err := raw.Dial(address, 1)
		if err != nil {
			return
		}
		defer raw.Close(conns)
		for ctx.Err() == nil {
			once, cancel := context.WithCancel(ctx)
			_ = each(once, caller{conns[0], token})
			cancel() // ends the streams
		}
	}
}

// notReading opens streams that ask again and again for the large semaphore and read nothing.
func notReading(ctx context.Context, address string) {
	var messages []byte
	add := func(m *Ydb_Coordination.SessionRequest) {
		b, _ := proto.Marshal(m)
		messages = append(messages, prefixed(0, len(b), b)...)
	}
	add(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
		SessionStart: &raw.Start{Path: malNode, TimeoutMillis: 30_000}}})
	for i := range uint64(3) {
		add(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
			DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: i, Name: "large",
				IncludeOwners: true}}})
	}
	for ctx.Err() == nil {
		a, err := dial(address, true)
		if err != nil {
			continue
		}
		for range 100 {
			if a.call(sessionMethod, userToken, "x-ydb-database", "/local") != nil || a.say(messages) != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
		}
		_ = a.Close()
	}
}

// notReadingEnds opens streams that ask for the large semaphore, and calls with long answers, closes them on
// this side and reads nothing of what comes: they are over for the server, and their answers are not.
func notReadingEnds(ctx context.Context, address string) {
	message := func(m proto.Message) []byte {
		b, _ := proto.Marshal(m)
		return prefixed(0, len(b), b)
	}
	start := message(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
		SessionStart: &raw.Start{Path: malNode, TimeoutMillis: 30_000}}})
	describe := message(
		&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
			DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: 1, Name: "large",
				IncludeOwners: true}}})
	path := message(&Ydb_Scheme.DescribePathRequest{Path: deepPath + strings.Repeat("/d", 28)})
	onConnections(true, func(a *attacker) error {
		if a.stream == 0 {
			if err := a.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize,
				Val: 0}); err != nil {
				return err
			}
		}
		err := a.call("/Ydb.Scheme.V1.SchemeService/DescribePath", userToken, "x-ydb-database", "/local")
		if err == nil {
			err = a.framer.WriteData(a.stream, true, path)
		}
		if err == nil {
			err = a.call(sessionMethod, userToken, "x-ydb-database", "/local")
		}
		for _, b := range [][]byte{start, describe} {
			if err == nil {
				err = a.say(b)
			}
		}
		select { // so that the stream has been answered
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
		if err == nil {
			err = a.framer.WriteData(a.stream, true, nil)
		}
		return err
	})(ctx, address)
}

// theft takes over the good client's session, which has no protection key, and stops it.
func (g *good) theft(ctx context.Context, c caller) error {
	s, err := raw.Open(c.ctx(ctx), c.conn, &raw.Start{Path: nodePath, SessionId: g.session, SeqNo: 1<<64 - 1,
		TimeoutMillis: 60_000})
	if err == nil {
		g.fail(fmt.Errorf("session %d was taken over by %q as %d", g.session, c.token, s.ID))
	}
	return err
}

// login logs in, and gives the token.
func (c caller) login(ctx context.Context, user, password string) (string, error) {
	answer, err := Ydb_Auth_V1.NewAuthServiceClient(c.conn).Login(ctx,
		&Ydb_Auth.LoginRequest{User: user, Password: password})
	if err := succeeded(answer, err); err != nil {
		return "", err
	}
	var result Ydb_Auth.LoginResult
	err = answer.GetOperation().GetResult().UnmarshalTo(&result)
	return result.GetToken(), err
}

func (c caller) manage(ctx context.Context, method string, request, response proto.Message) error {
	return c.conn.Invoke(c.ctx(ctx), "/"+adminpb.Users_ServiceDesc.ServiceName+"/"+method, request, response)
}

// knownLogin logs root in while others guess, from an address from which root has logged in.
func (g *good) knownLogin(ctx context.Context, c caller) error {
	_, err := c.login(ctx, "root", rootPassword)
	if err != nil && ctx.Err() == nil {
		g.fail(fmt.Errorf("a right login beside wrong ones: %w", err))
	}
	return err
}

// guess logs in with a wrong password, many times at once.
func guess(ctx context.Context, c caller) error {
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() { _, _ = c.login(ctx, fmt.Sprint("guessed-", i%10), "wrong") })
	}
	all.Wait()
	return nil
}

// stolenToken changes ann's password with her token alone, which does not do, and has root rotate the key, so
// that the stream ends that began with the token.
func (g *good) stolenToken(ctx context.Context, root caller) error {
	token, err := root.login(ctx, "ann", annPassword)
	if err != nil {
		return err
	}
	stolen := caller{root.conn, token}
	s, err := raw.Open(stolen.ctx(ctx), stolen.conn, &raw.Start{Path: malNode, TimeoutMillis: 60_000})
	if err != nil {
		return err
	}
	if stolen.manage(ctx, "SetPassword", &adminpb.SetPasswordRequest{Name: "ann", Password: "mine"},
		new(adminpb.SetPasswordResponse)) == nil {
		return errors.New("a token was enough to change a password")
	}
	if err := root.manage(ctx, "RotateKey", &adminpb.RotateKeyRequest{},
		new(adminpb.RotateKeyResponse)); err != nil {
		return err
	}
	if m, err := s.Receive(); err == nil { // pings are answered until the end
		return fmt.Errorf("a stream goes on with a rotated key: %v", m)
	}
	return nil
}

// prepare makes what the attacks need.
func prepare(ctx context.Context, root caller) error {
	user := caller{root.conn, userToken}
	err := errors.Join(root.makeDirectory(ctx, malPath),
		root.grant(ctx, malPath, "ydb.generic.full", "user", "ann"))
	if err == nil {
		err = succeeded(Ydb_Coordination_V1.NewCoordinationServiceClient(root.conn).CreateNode(user.ctx(ctx),
			&Ydb_Coordination.CreateNodeRequest{Path: malNode}))
	}
	if err == nil {
		err = root.grant(ctx, nodePath, "ydb.granular.select_row", "user")
	}
	if err == nil {
		err = user.deepTree(ctx)
	}
	if err == nil {
		err = root.manage(ctx, "Add", &adminpb.AddRequest{Name: "ann", Password: annPassword},
			new(adminpb.AddResponse))
	}
	if err == nil {
		_, err = root.login(ctx, "root", rootPassword)
	}
	if err == nil {
		err = user.largeSemaphore(ctx)
	}
	return err
}
