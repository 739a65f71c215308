// Command peers measures coordd beside other servers that programs keep locks in: etcd, ZooKeeper and Redis,
// all started by it, with their data on the same disk and every write made durable before it is acknowledged.
// They take turns within each round, so that what the machine does otherwise meets all of them; the median of
// the rounds counts. A stub of coordd's protocol without a log (conformance/bench/stub) takes its turns as
// well: it says what streams, messages and the client cost.
//
// Each is used by its usual Go client, in the form that its documentation gives for locks:
//
//   - coordd, raw: acquire and release of a semaphore of limit 1, on bare Session streams.
//   - coordd, Go SDK: the same by ydb-go-sdk.
//   - etcd: concurrency.Mutex of go.etcd.io/etcd/client/v3. Lock is one transaction and Unlock one delete
//     where nobody else wants the lock, which is as cheap as it gets; a waiter watches the one before it.
//   - ZooKeeper: an ephemeral znode created and deleted (W1); zk.Lock, ephemeral and sequential znodes, where
//     there is a queue (W2, W6).
//   - Redis: SET NX PX, and a script that deletes the key if it is still the holder's; whoever waits tries
//     again after 1 to 5 ms. It is no queue: the same client often takes the lock again, so only changes of
//     the holder are counted.
//
// Sessions share 16 connections, of Redis a pool of 16, but for ZooKeeper, whose sessions have one each, and
// for W6. A peer whose program is not installed is left out, and the table says so. See docs/benchmarks.md
// for what the workloads are.
//
//	go run ./peers -coordd ../../bin/coordd -etcd ../../bin/etcd
package main
