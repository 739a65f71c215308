package meters

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestPanicOfHandler: a client learns of a panic, but nothing of its text.
func TestPanicOfHandler(t *testing.T) {
	p := &Panics{Logger: slog.New(slog.DiscardHandler)}
	_, unary := p.Unary(t.Context(), nil, &grpc.UnaryServerInfo{},
		func(context.Context, any) (any, error) { panic("secret") })
	stream := p.Stream(nil, nil, &grpc.StreamServerInfo{},
		func(any, grpc.ServerStream) error { panic("secret") })
	for _, err := range []error{unary, stream} {
		if s := status.Convert(err); s.Code() != codes.Internal || strings.Contains(s.Message(), "secret") {
			t.Errorf("got %v", err)
		}
	}
	if p.Count() != 2 {
		t.Errorf("%d panics are counted", p.Count())
	}
	if answer, err := p.Unary(t.Context(), nil, &grpc.UnaryServerInfo{},
		func(context.Context, any) (any, error) { return 1, nil }); answer != 1 || err != nil {
		t.Errorf("got %v, %v", answer, err)
	}
}

// TestPanicsAreToldRarely makes one handler panic over and over, and another one once: each is logged with its stack,
// but not each time.
func TestPanicsAreToldRarely(t *testing.T) {
	var log strings.Builder
	p := &Panics{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for i := range 1000 {
		p.Note("/a/Call", i)
	}
	p.Note("/another/Call", "once")
	if told := strings.Count(log.String(), `msg="recovered from a panic" in=/a/Call`); told < 1 || told > 10 ||
		strings.Count(log.String(), " stack=") != told+1 {
		t.Errorf("a thousand panics are told %d times", told)
	}
	if strings.Count(log.String(), "in=/another/Call reason=once") != 1 || p.Count() != 1001 {
		t.Errorf("%d panics are counted; the log:\n%s", p.Count(), log.String())
	}
}
