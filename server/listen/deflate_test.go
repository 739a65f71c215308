package listen

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/grpc/encoding"
)

// TestDeflate folds and unfolds messages, whole ones and broken ones, as clients do.
func TestDeflate(t *testing.T) {
	d := encoding.GetCompressor(deflateName).(*deflate)
	for _, n := range []int{0, 1, 100_000} {
		whole := deflated(t, d, n)
		// the first byte of zlib's format; raw data would begin otherwise
		if len(whole) > 0 && whole[0] != 0x78 {
			t.Errorf("%d bytes begin with %#x", n, whole[0])
		}
		if got, err := inflated(t, d, whole); err != nil || len(got) != n ||
			bytes.Count(got, []byte("a")) != n {
			t.Errorf("%d bytes: got %d, %v", n, len(got), err)
		}
		for _, broken := range [][]byte{nil, []byte("nothing of the kind"), whole[:len(whole)/2],
			whole[:len(whole)-1]} {
			if got, err := inflated(t, d, broken); err == nil {
				t.Errorf("%d bytes of what is broken", len(got))
			}
		}
	}
}

func deflated(t *testing.T, d *deflate, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := d.Compress(&b)
	if err == nil {
		_, err = w.Write(bytes.Repeat([]byte("a"), n))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func inflated(t *testing.T, d *deflate, data []byte) ([]byte, error) {
	t.Helper()
	r, err := d.Decompress(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
