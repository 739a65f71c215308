// Package standin is coordd in other people's tests: a real server, in the process of the test, in place of
// YDB.
//
//	s := standin.Start(t)
//	db, err := ydb.Open(ctx, s.ConnectionString())
//
// It keeps everything in memory, has a port of its own, and ends with the test. Servers starts several as a cluster,
// Dir makes them persistent, and Users and TLS require clients to authenticate. Run starts one without a test, as for
// TestMain; In then names the test to which a failure belongs.
//
// Owners, Waiters, Sessions, Data and Dump look inside without the protocol, and those whose name begins with
// Await wait for what they would see.
//
// With FakeTime nothing times out by itself: Advance lets session timeouts, waits and grace periods pass
// without waiting for them. What an SDK notices by a clock of its own is not moved.
package standin
