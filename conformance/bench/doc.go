// Command bench measures coordd: beside a stub of its protocol without a log (package stub), beside other servers
// that programs keep locks in, and beside the machine's own floor, one fdatasync and one empty gRPC stream round
// trip. It starts all servers as processes of its own, with their data on the same disk and every write made durable
// before it is acknowledged. They take turns within each round, so that what the machine does otherwise meets all of
// them; the median of the rounds counts, and ratios are taken within a round.
//
//	cd conformance/bench && go run . -coordd ../../bin/coordd -etcd ../../bin/etcd
//
// Each server is used by its usual Go client, in the form that its documentation gives for locks:
//
//   - coordd, raw: acquire and release of a semaphore of limit 1, on bare Session streams.
//   - coordd, Go SDK: the same by ydb-go-sdk.
//   - etcd: concurrency.Mutex of go.etcd.io/etcd/client/v3. Lock is one transaction and Unlock one delete
//     where nobody else wants the lock, which is as cheap as it gets; a waiter watches the one before it.
//   - ZooKeeper: an ephemeral znode created and deleted (W1); zk.Lock, ephemeral and sequential znodes, where
//     there is a queue (W2).
//   - Redis: SET NX PX, and a script that deletes the key if it is still the holder's; a waiter tries again after 1
//     to 5 ms. It is no queue: the same client often takes the lock again, so only changes of the holder are counted.
//
// Sessions share 16 connections, of Redis a pool of 16, but for ZooKeeper, whose sessions have one each. A peer whose
// program is not installed is left out, which the page states. docs/dev/benchmarks.md describes the workloads,
// docs/dev/scaling.md those of -measure scaling. Package openloop has the generator of -measure open.
//
// The benchmarks are a module of their own, so that the clients of the other servers stay out of coordd's. etcd's
// server is built from a third one (folder etcd), with the versions that it was made for.
package main
