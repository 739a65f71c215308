package listen

import (
	"bytes"
	"io"
	"sync"
	"testing"

	"google.golang.org/grpc/encoding"
)

// held is a message that is not read on before it is allowed to be.
type held struct {
	io.Reader
	once   sync.Once
	begun  chan<- struct{}
	goesOn <-chan struct{}
}

func (h *held) Read(p []byte) (int, error) {
	h.once.Do(func() {
		h.begun <- struct{}{}
		<-h.goesOn
	})
	return h.Reader.Read(p)
}

// TestOneSetOfSlots has many messages of both kinds come at once: there is work at as many as there are
// slots, which both kinds share, and one more begins when one has ended.
func TestOneSetOfSlots(t *testing.T) {
	registered := encoding.GetCompressor("deflate").(*deflate)
	if registered.slots != ownSlots {
		t.Error("deflate has slots of its own")
	}
	for _, n := range []int{1, 2, 3} {
		const most = 10_000
		shared := newSlots(n)
		unzip, inflate := newDecompressor(most, shared), &deflate{slots: shared}
		messages := 4 * n
		begun, goesOn := make(chan struct{}, messages), make(chan struct{})
		var working sync.WaitGroup
		folded := [][]byte{packed(t, most), deflated(t, inflate, most)}
		for i := range messages {
			source := &held{Reader: bytes.NewReader(folded[i%2]), begun: begun, goesOn: goesOn}
			working.Go(func() {
				var got []byte
				var err error
				if i%2 == 0 {
					got, err = unzip.Do(source)
				} else {
					var r io.Reader
					if r, err = inflate.Decompress(source); err == nil {
						got, err = io.ReadAll(r)
						_ = r.(io.Closer).Close()
					}
				}
				if err != nil || len(got) != most {
					t.Errorf("message %d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		for range n {
			<-begun
		}
		if len(shared) != 0 {
			t.Errorf("%d of %d slots are free while %d messages are worked at", len(shared), n, n)
		}
		for i := range messages {
			if len(begun) != 0 {
				t.Errorf("%d messages more than %d slots are worked at", len(begun), n)
			}
			goesOn <- struct{}{}
			if i < messages-n {
				<-begun
			}
		}
		working.Wait()
		if len(shared) != n || len(unzip.spaces) > n {
			t.Errorf("%d of %d slots are given back, with %d spaces", len(shared), n, len(unzip.spaces))
		}
	}
}
