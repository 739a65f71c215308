package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/coordd/coordd/server/adminpb"
)

// TestConsoleFindsOneName: a lock is found by its whole name, however many names begin with it.
func TestConsoleFindsOneName(t *testing.T) {
	s, conn := startTest(t, withConsole)
	stream := openTest(t, t.Context(), conn, start(60_000))
	next(t, stream)
	for i := range 300 {
		send(t, stream, acquire(uint64(i+1), fmt.Sprintf("lock-%03d", i), nil))
		next(t, stream)
	}
	send(t, stream, acquire(301, "lock", nil))
	next(t, stream)
	b := signedIn(t, s)
	for name, want := range map[string]int{"lock": 1, "lock-299": 1, "lock-": 0, "": 0} {
		page := &adminpb.Page{}
		b.call(adminpb.Inspect_List_FullMethodName, &adminpb.PageRequest{Kind: adminpb.PageRequest_SEMAPHORES,
			Path: testNode, Prefix: []byte(name), Exact: true}, page)
		if got := page.GetSemaphores(); len(got) != want || want == 1 && string(got[0].GetName()) != name ||
			page.GetNextPageToken() != "" {
			t.Errorf("%q: got %v", name, page)
		}
	}
	b.want(listPath, `{"kind":"SEMAPHORES","order":"NAME","exact":true}`, http.StatusBadRequest, "order: want")
}

// waitForChange asks for changes of the semaphores, and returns the answer, or the error. The request has left this
// process when it returns.
func (b *browser) waitForChange() <-chan string {
	b.t.Helper()
	answer, _ := b.ask(listPath, `{"kind":"SEMAPHORES"}`)
	body := fmt.Sprintf(`{"views":[{"method":%q,"request":{"kind":"SEMAPHORES"},"have":%q}]}`,
		adminpb.Inspect_List_FullMethodName, answer.Header.Get(versionOfAnswer))
	asked, over := make(chan struct{}), make(chan string, 1)
	ctx := httptrace.WithClientTrace(b.t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(asked) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.s.HTTPAddr().String()+"/api/live",
		strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + b.token}}
	request.Close = true
	go func() {
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			over <- err.Error()
			return
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		over <- string(text)
	}()
	<-asked
	return over
}

// TestLiveEndsWithTheServer: a page that waits for a change does not hold up a server that stops, and leaves nothing
// that goes on in it (see TestMain).
func TestLiveEndsWithTheServer(t *testing.T) {
	s, _ := startTest(t, withConsole)
	over := signedIn(t, s).waitForChange()
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	if got := <-over; got == `{"changed":[]}` {
		t.Error("the question was answered in its own time")
	}
}

// TestLiveEndsWithTheSession: a page learns nothing any more once its session has ended.
func TestLiveEndsWithTheSession(t *testing.T) {
	s, _ := startTest(t, withConsole)
	b := signedIn(t, s)
	over := b.waitForChange()
	b.method = http.MethodDelete
	b.want(sessionPage, "", http.StatusNoContent, "")
	if got := <-over; !strings.Contains(got, "You are not signed in, or no longer") {
		t.Errorf("got %s", got)
	}
}
