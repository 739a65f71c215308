// Package client takes locks, leads elections and shares out pools on a coordd server or a YDB, and reports every
// refusal. YDB's SDK for Go hides them: an update or a release returns nil whatever the server has replied, a refused
// acquire looks like a timeout, and a holder may learn of the loss of its session after another one has the lock. This
// client hides neither: a refusal is an error value with its status and text, and a [Lease] has a channel that is
// closed when it must no longer be believed, also where no server can be reached that would report it.
//
// The package is experimental: names may change in each 0.x release. It is a package of the module that has the
// server, and links none of it: gRPC and YDB's messages, and no more.
//
// # Leases
//
// [Session.Lock], [RWLock], [Pool] and [Election] grant a [Lease]. It has three parts:
//
//   - [Lease.Done] is closed when the holder has to stop: the lease was released, its session ended, the semaphore was
//     deleted, or no server has answered for as long as the session's timeout, by this machine's clock. The server
//     counts from a later moment, so no other session has the lease before.
//   - [Lease.Token] is the fencing token: a later exclusive holder has a larger one. A process that is paused wakes up
//     with a lease that is over before it can notice. A resource that refuses smaller tokens is safe from it.
//   - [Lease.Release] gives it back.
//
// A context that ends while a call waits for a lease removes the wait from the server's queue.
//
// # Sessions
//
// A [Session] is kept alive by messages on its own stream, and moves to another server of the cluster when that
// breaks. It may have up to 256 requests at a time, waits included. When it is lost, so is everything that it holds:
// open another.
package client
