package listen

import "testing"

// TestReceiveBuffers asks for a buffer for each size of a frame that has one.
func TestReceiveBuffers(t *testing.T) {
	for size := 1<<10 + 1; size <= 16<<10; size++ {
		buffer := receiveBuffers.Get(size)
		if takes := cap(*buffer); 2*takes > 3*size || len(*buffer) != size {
			t.Fatalf("a frame of %d bytes has %d in a buffer of %d", size, len(*buffer), takes)
		}
		receiveBuffers.Put(buffer)
	}
}
