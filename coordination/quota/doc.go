// Package quota hands out the units of rate limiters, whose properties the machine of package coordination
// has. It is pure like that: time is an argument, and it knows no goroutine and no server. Section numbers are those of
// the specification of rate limiters.
//
// There are two roles.
//
//   - A Distributor lives where the leader is. Every tick it gives each resource a tenth of what that may
//     have in a second, and shares it out downwards among those who ask for it: fairly, and no child more
//     than its own rate (§5.1).
//   - Buckets live on every server, the leader's too. A bucket answers those who acquire units of a resource
//     on this server, and asks for more while it is not full (§5.2). A change of the leader touches none.
//
// So to acquire costs no way to another server, and a server that loses the leader goes on with what it had
// lately. What is consumed is remembered by the bucket alone, as a level that may be negative: a debt keeps
// who has made it waiting, and nobody else.
//
// # Invariants
//
// What a resource and all below it are given in any k ticks is (k+1)/10 of its rate at most. A bucket's level
// is its first content and its receipts, less the units granted from it and reported as used. All grants follow the
// rule of pace (Bucket.may), to the waiters in their order. Only active resources cost anything: a tick takes time for
// the resources that servers ask for, however many exist.
package quota
