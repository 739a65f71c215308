package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

const sessionMethod = "/Ydb.Coordination.V1.CoordinationService/Session"

// frameClient is an HTTP/2 client that sends any frames of a test, right or wrong.
type frameClient struct {
	net.Conn
	framer *http2.Framer
	write  sync.Mutex // of framer, and guards what follows
	block  bytes.Buffer
	hpack  *hpack.Encoder
}

// dialFrames connects and sends the preface and the settings.
func dialFrames(address string, settings ...http2.Setting) (*frameClient, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &frameClient{Conn: conn, framer: http2.NewFramer(conn, conn)}
	c.hpack = hpack.NewEncoder(&c.block)
	if _, err = io.WriteString(conn, http2.ClientPreface); err == nil {
		err = c.framer.WriteSettings(settings...)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func dialFramesTest(t *testing.T, s *Server, settings ...http2.Setting) *frameClient {
	t.Helper()
	c, err := dialFrames(s.Addr().String(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// callHeaders are the headers of a gRPC call, further ones behind them.
func callHeaders(method string, more ...string) []string {
	return append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "test",
		"content-type", "application/grpc", "te", "trailers"}, more...)
}

// headers opens a stream.
func (c *frameClient) headers(id uint32, end bool, fields []string) error {
	c.write.Lock()
	defer c.write.Unlock()
	c.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		if err := c.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			return err
		}
	}
	block := c.block.Bytes()
	first := min(len(block), 16<<10)
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:first],
		EndHeaders: first == len(block), EndStream: end})
	for block = block[first:]; len(block) > 0 && err == nil; block = block[first:] {
		first = min(len(block), 16<<10)
		err = c.framer.WriteContinuation(id, first == len(block), block[:first])
	}
	return err
}

func (c *frameClient) data(id uint32, end bool, payload []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	return c.framer.WriteData(id, end, payload)
}

func (c *frameClient) reset(id uint32) error {
	c.write.Lock()
	defer c.write.Unlock()
	return c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
}

// read returns the next frame other than settings and window updates, and answers what must be answered.
func (c *frameClient) read() (http2.Frame, error) {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return nil, err
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				continue
			}
			c.write.Lock()
			err = c.framer.WriteSettingsAck()
			c.write.Unlock()
		case *http2.PingFrame:
			if f.IsAck() {
				return f, nil
			}
			c.write.Lock()
			err = c.framer.WritePing(true, f.Data)
			c.write.Unlock()
		case *http2.WindowUpdateFrame:
		default:
			return frame, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// alive reports whether the server answers an HTTP/2 ping on the connection.
func (c *frameClient) alive() bool { return c.ping() == nil }

// ping returns once the server has answered a ping, or why it has not.
func (c *frameClient) ping() error {
	c.write.Lock()
	err := c.framer.WritePing(false, [8]byte{1})
	c.write.Unlock()
	for err == nil {
		var frame http2.Frame
		if frame, err = c.read(); err == nil {
			if ping, is := frame.(*http2.PingFrame); is && ping.IsAck() {
				return nil
			}
		}
	}
	return err
}

// await reads until the server closes the connection or sends a frame of the wanted type about the stream.
func (c *frameClient) await(id uint32, want http2.FrameType) error {
	for {
		frame, err := c.read()
		if err != nil {
			return err
		}
		if frame.Header().StreamID == id && frame.Header().Type == want {
			return nil
		}
	}
}

// awaitAnswer reads until the server closes the connection, answers on the stream, or ends it: a machine that is too
// slow for a stream's time gets an error.
func (c *frameClient) awaitAnswer(id uint32) error {
	for {
		frame, err := c.read()
		if err != nil {
			return err
		}
		headers, is := frame.(*http2.HeadersFrame)
		if frame.Header().StreamID == id && (frame.Header().Type == http2.FrameData || is &&
			headers.StreamEnded()) {
			return nil
		}
	}
}

// framed puts gRPC's prefix before a message.
func framed(m proto.Message) []byte {
	encoded, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return prefixed(0, uint32(len(encoded)), encoded)
}

// prefixed is gRPC's prefix as given and the bytes, whether they fit or not.
func prefixed(flags byte, length uint32, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, length), message...)
}

func startMessage(timeoutMillis uint64) *Ydb_Coordination.SessionRequest {
	return &Ydb_Coordination.SessionRequest{Request: &Ydb_Coordination.SessionRequest_SessionStart_{SessionStart: start(timeoutMillis)}}
}
