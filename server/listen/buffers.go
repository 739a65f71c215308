package listen

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
)

// gRPC keeps each frame of data in a buffer of a fixed size. Its own sizes are so far apart that a client who
// sends frames just larger than one of them takes four times what is counted as received. With these it is
// half as much again at most, for frames that are large enough to have such a buffer (1 KiB), up to the
// largest that a client may send (16 KiB).
var receiveBuffers = mem.NewTieredBufferPool(256, 1536, 2<<10, 3<<10, 4<<10, 6<<10, 8<<10, 12<<10, 16<<10,
	32<<10, 1<<20)

// ReceiveBuffers makes a gRPC server keep what it receives in buffers of these sizes.
func ReceiveBuffers() grpc.ServerOption { return experimental.BufferPool(receiveBuffers) }
