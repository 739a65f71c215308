package client_test

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coordd/coordd/client"
	"github.com/coordd/coordd/server"
)

// TestRecipe wants the program of docs/recipes.md to be a part of the recipe below, which it runs.
func TestRecipe(t *testing.T) {
	page, err := os.ReadFile("../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("recipe_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "<!-- run: TestRecipe -->\n```go\n")
	block, _, found := strings.Cut(block, "```\n")
	rest := string(source[bytes.LastIndex(source, []byte("\nfunc recipe(")):])
	for line := range strings.Lines(block) {
		_, after, is := strings.Cut(rest, strings.Replace(line, `"grpc://127.0.0.1:2136/local"`, "endpoint", 1))
		if rest = after; !is || !found {
			t.Fatalf("the recipe below does not have the line %q, or not there", line)
		}
	}
	s, err := server.Start(t.Context(), server.Config{Listen: "127.0.0.1:0", Database: "/local", InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	var tokens, reasons []any
	ended := make(chan bool)
	err = recipe(t.Context(), "grpc://"+s.Addr().String()+"/local", func(err error) {
		reasons = append(reasons, err)
		close(ended)
	}, func(_ context.Context, token uint64) error {
		tokens = append(tokens, token)
		return nil
	})
	if <-ended; err != nil || !slices.Equal(tokens, []any{uint64(1)}) ||
		!slices.Equal(reasons, []any{client.ErrReleased}) {
		t.Error(err, tokens, reasons)
	}
}

func recipe(ctx context.Context, endpoint string, stop func(error),
	writeReport func(context.Context, uint64) error) error {
	c, err := client.New(client.Config{Endpoint: endpoint})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.CreateNode(ctx, "/local/app"); err != nil {
		return err
	}
	session, err := c.Open(ctx, "/local/app", client.SessionConfig{Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer session.Close(ctx)
	lease, err := session.Lock(ctx, "report")
	if err != nil {
		return err
	}
	go func() {
		<-lease.Done() // lost, or no server has answered for 10 s
		stop(lease.Err())
	}()
	err = writeReport(ctx, lease.Token()) // the resource refuses smaller tokens
	if err != nil {
		return err
	}
	err = lease.Release(ctx)
	return err
}
