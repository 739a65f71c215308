package listen

import (
	"bytes"
	"compress/gzip"
	"testing"
)

func packed(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(bytes.Repeat([]byte("a"), n))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestDecompress unfolds what is within the limit, a byte over it, cut and broken, and empty, one after the
// other in the same slot.
func TestDecompress(t *testing.T) {
	const most = 100_000
	d := newDecompressor(most, newSlots(1))
	for range 2 {
		for _, n := range []int{0, 1, most - 1, most, most + 1, 100 * most} {
			got, err := d.Do(bytes.NewReader(packed(t, n)))
			if want := min(n, most+1); err != nil || len(got) != want || n <= most &&
				bytes.Count(got, []byte("a")) != n {
				t.Errorf("%d bytes: got %d, %v", n, len(got), err)
			}
		}
		whole := packed(t, 1000)
		for _, broken := range [][]byte{nil, []byte("no gzip at all"), whole[:len(whole)/2],
			whole[:len(whole)-1]} {
			if got, err := d.Do(bytes.NewReader(broken)); err == nil {
				t.Errorf("%d bytes of what is broken", len(got))
			}
		}
	}
	if len(d.slots) != 1 || len(d.spaces) != 1 || len(<-d.spaces) != most+1 {
		t.Error("the slot is not given back, or has grown")
	}
}
