package server

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// from is a client at another address of this machine. (Only Linux has all of 127.0.0.0/8 by default.)
func (g *guarded) from(address string) Ydb_Auth_V1.AuthServiceClient {
	g.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := grpc.NewClient(g.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn,
			error) {
			return dialer.DialContext(ctx, "tcp", to)
		}))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return Ydb_Auth_V1.NewAuthServiceClient(conn)
}

// TestLoginsOfStrangers: a crowd that logs in with wrong passwords, for ever and all at once, does not shut
// out a user who comes from elsewhere and has never been there.
func TestLoginsOfStrangers(t *testing.T) {
	g := startGuarded(t, func(c *Config) { c.replaced.passwords = nil }) // dear ones, for a line to form
	g.login("root", rootPassword)                                        // makes the key
	crowd := g.from("127.0.0.66")
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	full := make(chan struct{}, 1)
	for i := range 2 * 128 {
		ended.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				answer, err := crowd.Login(ctx,
					&Ydb_Auth.LoginRequest{User: fmt.Sprint("user-", i, "-", n), Password: "x"})
				if err == nil && answer.GetOperation().GetStatus() == Ydb.StatusIds_OVERLOADED {
					select {
					case full <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	<-full
	for _, address := range []string{"127.0.0.3", "127.0.0.4", "127.0.0.3"} {
		answer, err := g.from(address).Login(t.Context(),
			&Ydb_Auth.LoginRequest{User: "root", Password: rootPassword})
		if err != nil || answer.GetOperation().GetStatus() != Ydb.StatusIds_SUCCESS {
			t.Errorf("from %s: got %v, %v", address, answer, err)
		}
	}
}

// TestGuessing: a client that guesses has to wait, and others do not.
func TestGuessing(t *testing.T) {
	g := startGuarded(t, nil)
	guess := func(from Ydb_Auth_V1.AuthServiceClient, password string) (Ydb.StatusIds_StatusCode, string) {
		t.Helper()
		answer, err := from.Login(t.Context(), &Ydb_Auth.LoginRequest{User: "root", Password: password})
		if err != nil {
			t.Fatal(err)
		}
		op := answer.GetOperation()
		if len(op.GetIssues()) == 0 {
			return op.GetStatus(), ""
		}
		return op.GetStatus(), op.GetIssues()[0].GetMessage()
	}
	stranger, user := g.from("127.0.0.66"), g.from("127.0.0.3")
	if got, text := guess(user, rootPassword); got != Ydb.StatusIds_SUCCESS {
		t.Fatalf("got %s %s", got, text)
	}
	var got Ydb.StatusIds_StatusCode
	var text string
	// the waits grow, so that it comes to that on any machine
	for n := 0; got != Ydb.StatusIds_OVERLOADED; n++ {
		if got, text = guess(stranger, "x"); n > 1000 {
			t.Fatalf("%d guesses, and still %s %s", n, got, text)
		}
	}
	if !strings.Contains(text, "Too many wrong passwords from this address, try again in ") {
		t.Errorf("got %s", text)
	}
	for range 10 {
		if got, text := guess(user, "x"); got != Ydb.StatusIds_UNAUTHORIZED {
			t.Fatalf("got %s %s", got, text)
		}
	}
	if got, text := guess(user, rootPassword); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("with the right one, from where it was shown before: got %s %s", got, text)
	}
	if got, text := guess(g.from("127.0.0.4"), rootPassword); got != Ydb.StatusIds_SUCCESS {
		t.Errorf("with the right one, from elsewhere: got %s %s", got, text)
	}
}
