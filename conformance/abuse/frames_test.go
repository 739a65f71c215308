//go:build linux

package abuse

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// attacker is a connection for arbitrary frames, which reads only on demand.
type attacker struct {
	net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	stream uint32 // the last one
}

// dial connects; what is read is thrown away if reads is set.
func dial(address string, reads bool) (*attacker, error) { return dialFrom(nil, address, reads) }

// dialFrom is that from an address of this machine.
func dialFrom(from net.Addr, address string, reads bool) (*attacker, error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second, LocalAddr: from}).Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	a := &attacker{Conn: conn, framer: http2.NewFramer(conn, nil)}
	a.hpack = hpack.NewEncoder(&a.block)
	_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	if err := a.framer.WriteSettings(); err != nil {
		return nil, err
	}
	if reads {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
	}
	return a, nil
}

// call opens a stream.
func (a *attacker) call(method, token string, more ...string) error {
	if a.stream == 0 {
		a.stream = 1
	} else {
		a.stream += 2
	}
	a.block.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "abuse",
		"content-type", "application/grpc", "te", "trailers"}, more...)
	if token != "" {
		fields = append(fields, "x-ydb-auth-ticket", token)
	}
	for i := 0; i < len(fields); i += 2 {
		if err := a.hpack.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			return err
		}
	}
	return a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: a.stream, BlockFragment: a.block.Bytes(),
		EndHeaders: true})
}

// say sends bytes on the last stream.
func (a *attacker) say(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), 1<<14)
		if err := a.framer.WriteData(a.stream, false, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// prefixed is gRPC's prefix as given, and the bytes.
func prefixed(flags byte, length int, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(length)), message...)
}

// bomb is compressed data that unfolds to so many bytes, in members of a mebibyte, since it takes long to
// compress them.
func bomb(unfolded int) []byte {
	pack := func(size int) []byte {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(make([]byte, size))
		_ = w.Close()
		return packed.Bytes()
	}
	return append(bytes.Repeat(pack(mebibyte), unfolded/mebibyte), pack(unfolded%mebibyte)...)
}
