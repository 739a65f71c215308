// Package standin is coordd in other people's tests: a real server, in the process of the test, in place of
// YDB.
//
//	s := standin.Start(t)
//	db, err := ydb.Open(ctx, s.ConnectionString())
//
// It keeps everything in memory, has a port of its own, and ends with the test. Servers has several of them
// make up a cluster, Dir has them keep their data, Users and TLS have clients show who they are. Run starts
// one without a test, as for TestMain; In then says to which test a failure belongs.
//
// Owners, Waiters, Sessions, Data and Dump look inside without the protocol, and those whose name begins with
// Await wait for what they would see.
//
// With FakeTime nothing times out by itself: Advance lets session timeouts, waits and grace periods pass
// without waiting for them. What an SDK notices by a clock of its own is not moved.
package standin
