package server

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/Ydb_Discovery_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Discovery"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestCutOffServerTakesNoLoginTokens: a server that hears no leader cannot know of a revocation. After a
// while it takes no login token, goes on with what does not come from the log, and takes the token again once
// there is a leader.
func TestCutOffServerTakesNoLoginTokens(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, tokens, "token-of-alice alice\n")
	c := startClusterWith(t, 2, func(config *Config) {
		config.Auth, config.TokenFile, config.InitialAdmin, config.InitialAdminPassword = AuthRequired,
			tokens, "root", rootPassword
		config.replaced.readiness.ContactPatience = 300 * time.Millisecond
	})
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	var token string
	c.eventually("a login", func() bool { // between two leaders there may be no leader for too long
		answer, err := Ydb_Auth_V1.NewAuthServiceClient(c.conns[0]).Login(ctx,
			&Ydb_Auth.LoginRequest{User: "root", Password: rootPassword})
		var result Ydb_Auth.LoginResult
		if err != nil || answer.GetOperation().GetResult() == nil ||
			answer.GetOperation().GetResult().UnmarshalTo(&result) != nil {
			return false
		}
		token = result.GetToken()
		return token != ""
	})
	whoAmI := func(token string) codes.Code {
		ctx := metadata.AppendToOutgoingContext(ctx, "x-ydb-auth-ticket", token)
		_, err := Ydb_Discovery_V1.NewDiscoveryServiceClient(c.conns[0]).WhoAmI(ctx,
			&Ydb_Discovery.WhoAmIRequest{})
		return status.Code(err)
	}
	c.eventually("the token taken", func() bool { return whoAmI(token) == codes.OK })
	c.stop(1)
	c.eventually("the token refused", func() bool { return whoAmI(token) == codes.Unavailable })
	if got := whoAmI("token-of-alice"); got != codes.OK {
		t.Errorf("a token of the file: %s", got)
	}
	if err := c.start(1); err != nil {
		t.Fatal(err)
	}
	c.eventually("the token taken again", func() bool { return whoAmI(token) == codes.OK })
}

// TestContact is the edge of the time.
