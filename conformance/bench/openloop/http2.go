package openloop

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// frameHead is the length of HTTP/2's head of a frame, messageHead of gRPC's head of a message.
const frameHead, messageHead = 9, 5

// conn is an HTTP/2 connection. It never limits what the server may send.
type conn struct {
	net     net.Conn
	framer  *http2.Framer
	mutex   sync.Mutex   // held while a frame is written
	window  atomic.Int64 // bytes that may be sent
	initial int64        // of the same, for each stream

	data  func(stream uint32, data []byte) error
	ended func(stream uint32, fields *http2.MetaHeadersFrame) error
	// moreWindow is called for a stream whose window grows.
	moreWindow func(stream uint32, by int64)
}

func dialHTTP2(address string) (*conn, error) {
	to, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	n := &conn{net: to, framer: http2.NewFramer(to, bufio.NewReader(to)), initial: 65_535}
	n.window.Store(65_535)
	n.framer.SetReuseFrames()
	n.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, err = to.Write([]byte(http2.ClientPreface))
	err = errors.Join(err,
		n.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: math.MaxInt32}),
		n.framer.WriteWindowUpdate(0, math.MaxInt32-65_535))
	if err == nil {
		err = n.readSettings()
	}
	if err != nil {
		_ = to.Close()
	}
	return n, err
}

// readSettings reads what a server sends first.
func (n *conn) readSettings() error {
	frame, err := n.framer.ReadFrame()
	if err != nil {
		return err
	}
	settings, is := frame.(*http2.SettingsFrame)
	if !is {
		return fmt.Errorf("the server begins with %v", frame)
	}
	if v, set := settings.Value(http2.SettingInitialWindowSize); set {
		n.initial = int64(v)
	}
	return n.framer.WriteSettingsAck()
}

// headers returns the headers of a gRPC call, which can be sent on any stream: they do not depend on earlier ones.
func headers(address, path string, more ...[2]string) ([]byte, error) {
	var head strings.Builder
	encoder := hpack.NewEncoder(&head)
	encoder.SetMaxDynamicTableSize(0)
	for _, f := range append([][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path},
		{":authority", address}, {"content-type", "application/grpc"}, {"te", "trailers"}}, more...) {
		if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return nil, err
		}
	}
	return []byte(head.String()), nil
}

// frame returns a frame.
func frame(kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) []byte {
	size := len(payload)
	f := []byte{byte(size >> 16), byte(size >> 8), byte(size), byte(kind), byte(flags)}
	return append(binary.BigEndian.AppendUint32(f, stream), payload...)
}

// dataFrame returns a message in a frame of its own.
func dataFrame(stream uint32, flags http2.Flags, m proto.Message) ([]byte, error) {
	text, err := proto.Marshal(m)
	message := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))) // not compressed
	return frame(http2.FrameData, flags, stream, append(message, text...)), err
}

// write writes frames, with so many bytes of data.
func (n *conn) write(frames []byte, data int64) error {
	if n.window.Add(-data) < 0 {
		return errWindow
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	_, err := n.net.Write(frames)
	return err
}

var errWindow = errors.New("the server takes no more: its flow control's window is used up")

// read reads until the connection ends.
func (n *conn) read() error {
	for {
		frame, err := n.framer.ReadFrame()
		if err != nil {
			return err
		}
		switch f := frame.(type) {
		case *http2.DataFrame:
			err = n.data(f.StreamID, f.Data())
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				n.window.Add(int64(f.Increment))
			} else {
				n.moreWindow(f.StreamID, int64(f.Increment))
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				n.mutex.Lock()
				err = n.framer.WritePing(true, f.Data)
				n.mutex.Unlock()
			}
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				err = n.ended(f.StreamID, f)
			}
		case *http2.GoAwayFrame, *http2.RSTStreamFrame:
			err = fmt.Errorf("the server sent %v", f)
		}
		if err != nil {
			return err
		}
	}
}
