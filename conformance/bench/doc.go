// Command bench measures a coordd server beside the machine's own floor: one fdatasync and one empty gRPC
// stream round trip, taken in the same run. It starts the given binary as a process of its own, with its data
// on disk, and prints a Markdown table; every figure is the median of three runs.
//
//	cd conformance/bench && go run . -coordd ../../bin/coordd
//
// Workloads, by the numbers of the project's performance guide: W1 lock and unlock, each session its own
// semaphore, and W2 one lock handed over among all sessions, which package load has; W3 one writer and many
// watchers; W4 idle sessions. One client's acquire is timed on one server and on three. All of W1, W2, W3 and
// W5, a group's members listed, take turns with package stub, a server of the same protocol without a log:
// the ratios say what the server adds to what gRPC and the client cost; -stubbed measures only these. With
// -watched only one thing is measured: what a pair of W1 costs a server whose metrics are read and whose
// state is listed every few seconds, and one that nobody watches. With -scaling it is what operations cost
// beside up to a million semaphores, and many sessions, nodes and waiters (docs/scaling.md).
//
// It is a module of its own, so that the clients of etcd, ZooKeeper and Redis, which folder peers measures
// coordd beside, stay out of the server's. etcd's server is built from a third one (folder etcd), with the
// versions that it was made for.
package main
