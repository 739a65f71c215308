//go:build linux

package abuse

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/Ydb_RateLimiter_V1"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_RateLimiter"
	"golang.org/x/net/http2"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coordd/coordd/conformance/raw"
)

// What one caller can take from all others: places for calls, streams and connections, and the processor.

const checkMethod = "/grpc.health.v1.Health/Check"

// shares are attacks that need no more than the server.
func shares(s *server) []attack {
	slowLogin, slowMessage := slowGzip(4000), slowGzip(1<<20-100)
	return []attack{
		{"H1 logins of headers only, from many addresses", 5, held(loginMethod, nil)},
		{"H1 health checks of headers only, from many addresses", 5, held(checkMethod, nil)},
		{"L5 Health.Watch, from many addresses", 5, held(watchMethod, prefixed(0, 0, nil))},
		{"H2 logins that take long to unfold", 4, onConnections(true, sending(loginMethod, "", slowLogin))},
		{"H2 messages of a user that take long to unfold", 4,
			onConnections(true, sending(directoryMethod, userToken, slowMessage))},
		{"M1 logins with passwords that nobody has", 4, byClient("", func(ctx context.Context, c caller) error {
			_, err := c.login(ctx, fmt.Sprintf("u%x", rand.Uint64()), strings.Repeat("x", 1025))
			return err
		})},
		{"M4 idle connections of monitoring programs", 1, at(s.HTTPAddress(), silent(""))},
		{"M4 requests of monitoring programs that do not end", 1, at(s.HTTPAddress(), silent("GET /healthz HTTP/1.1\r\n"))},
		{"M5 streams that the server has to reset", 2, onConnections(true, provoke(sessionMethod, userToken))},
		{"M5 streams of strangers that the server has to reset", 2, onConnections(true, provoke(loginMethod, ""))},
	}
}

// tenants are attacks of a user who may work below one directory. They need what prepare makes.
func tenants() []attack {
	return []attack{
		{"L3 wrong logins of a user who is known here", 4, byClient("", func(ctx context.Context, c caller) error {
			_, err := c.login(ctx, "ann", "wrong")
			return err
		})},
		{"M3 all streams", 4, byClient(userToken, holdStreams)},
		{"M3 all calls, which wait for units", 4, byClient(userToken, holdCalls)},
	}
}

// held opens calls and says the message in each, from one of many addresses of this machine, 2,000 a second.
func held(method string, message []byte) func(context.Context, string) {
	return func(ctx context.Context, address string) {
		from := net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, byte(rand.N(256)), byte(1+rand.N(254)))})
		for ctx.Err() == nil {
			a, err := dialFrom(from, address, true)
			if err != nil {
				continue
			}
			stop := context.AfterFunc(ctx, func() { _ = a.Close() })
			for range 2000 {
				if err == nil {
					err = a.call(method, "")
				}
				if err == nil && message != nil {
					err = a.say(message)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			stop()
			_ = a.Close()
		}
	}
}

// sending calls with a compressed message again and again.
func sending(method, token string, packed []byte) func(a *attacker) error {
	message := prefixed(1, len(packed), packed)
	return func(a *attacker) error {
		err := a.call(method, token, "grpc-encoding", "gzip")
		if err == nil {
			err = a.say(message)
		}
		return err
	}
}

// provoke opens a stream and has the server reset it, by a window update of 0.
func provoke(method, token string) func(a *attacker) error {
	return func(a *attacker) error {
		err := a.call(method, token, "x-ydb-database", "/local")
		if err == nil {
			err = a.framer.WriteRawFrame(http2.FrameWindowUpdate, 0, a.stream, make([]byte, 4))
		}
		return err
	}
}

// holdStreams opens sessions until there is no room, and holds them.
func holdStreams(ctx context.Context, c caller) error {
	for {
		if _, err := raw.Open(c.ctx(ctx), c.conn, &raw.Start{Path: malNode, TimeoutMillis: 1_800_000}); err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			return err
		}
	}
}

// holdCalls waits for units that do not come, in as many calls as there may be.
func holdCalls(ctx context.Context, c caller) error {
	limiter := Ydb_RateLimiter_V1.NewRateLimiterServiceClient(c.conn)
	_, _ = limiter.CreateResource(c.ctx(ctx), &Ydb_RateLimiter.CreateResourceRequest{CoordinationNodePath: malNode,
		Resource: &Ydb_RateLimiter.Resource{ResourcePath: "slow", Type: &Ydb_RateLimiter.Resource_HierarchicalDrr{
			HierarchicalDrr: &Ydb_RateLimiter.HierarchicalDrrSettings{MaxUnitsPerSecond: 0.001}}}})
	var all sync.WaitGroup
	for range 5000 {
		all.Go(func() {
			_, _ = limiter.AcquireResource(c.ctx(ctx), &Ydb_RateLimiter.AcquireResourceRequest{
				CoordinationNodePath: malNode, ResourcePath: "slow",
				Units:           &Ydb_RateLimiter.AcquireResourceRequest_Required{Required: 1000},
				OperationParams: &Ydb_Operations.OperationParams{OperationTimeout: durationpb.New(time.Hour)}})
		})
	}
	all.Wait()
	return nil
}

// slowGzip is so many bytes that unfold to nothing: blocks of deflate (RFC 1951, 3.2.7), each with a code of its
// own, which takes long to build, and no content.
func slowGzip(size int) []byte {
	packed := []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}
	var pending, bits uint
	put := func(value, width uint) {
		pending |= value << bits
		for bits += width; bits >= 8; bits -= 8 {
			packed = append(packed, byte(pending))
			pending >>= 8
		}
	}
	block := func(last uint) {
		put(last|2<<1, 3)      // a block with its own codes
		put(0|0<<5|14<<10, 14) // 257 and 1 codes, whose lengths are coded by 18
		for i := range 18 {    // of these, only "1" (the last) and "a run of zeros" (the third) are used, with a bit each
			put(map[bool]uint{true: 1}[i == 2 || i == 17], 3)
		}
		for _, zeros := range []uint{138, 118} { // then two lengths of 1, for the end and for a distance
			put(1|(zeros-11)<<1, 8)
		}
		put(0, 3) // these two, and the end
	}
	for len(packed) < size-40 {
		block(0)
	}
	block(1)
	put(0, 7) // to the next byte
	return append(packed, binary.LittleEndian.AppendUint64(nil, 0)...)
}

// TestSlowGzip unfolds such bytes: to nothing, without an error.
func TestSlowGzip(t *testing.T) {
	r, err := gzip.NewReader(bytes.NewReader(slowGzip(4000)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || len(got) != 0 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
