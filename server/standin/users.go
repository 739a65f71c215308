package standin

import (
	"context"
	"fmt"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_Auth_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Auth"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/coordd/coordd/server/adminpb"
)

// administrator returns the first user that may add the others, or else one more.
func administrator(users []User) (name, password string) {
	for _, u := range users {
		if u.Administrator {
			return u.Name, u.Password
		}
	}
	return "standin-administrator", "standin-administrator"
}

// addUsers adds those that the servers have not begun with.
func (c *core) addUsers(ctx context.Context) error {
	admin, password := administrator(c.settings.users)
	if len(c.settings.users) == 0 || len(c.settings.users) == 1 && c.settings.users[0].Name == admin {
		return nil
	}
	conn, err := grpc.NewClient(c.members[0].clients.address(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := Ydb_Auth_V1.NewAuthServiceClient(conn).Login(ctx,
		&Ydb_Auth.LoginRequest{User: admin, Password: password})
	if err != nil {
		return err
	}
	login := new(Ydb_Auth.LoginResult)
	if err := answer.GetOperation().GetResult().UnmarshalTo(login); err != nil {
		return fmt.Errorf("log in: %v", answer.GetOperation())
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "x-ydb-auth-ticket", login.GetToken())
	client := adminpb.NewUsersClient(conn)
	known, err := client.List(ctx, &adminpb.ListRequest{})
	if err != nil {
		return err
	}
	there := make(map[string]bool) // in a directory that is kept
	for _, u := range known.GetUsers() {
		there[u.GetName()] = true
	}
	for _, u := range c.settings.users {
		if there[u.Name] {
			continue
		}
		_, err := client.Add(ctx, &adminpb.AddRequest{Name: u.Name, Password: u.Password,
			Administrator: u.Administrator})
		if err != nil {
			return fmt.Errorf("user %s: %w", u.Name, err)
		}
	}
	return nil
}
