// Package slowest keeps the slowest requests of this server's Session streams, with the time that each spent in each
// stage.
//
// A request brings the time of its arrival and that of its answer. What all requests of an entry share, from the
// turn that proposed it to its execution, is kept once, for the last entries. The two are joined by the entry's index
// when the answer is sent, and only for a request that is among the slowest of its window; of any other two numbers
// are compared. Memory is allocated at the end of a window only.
//
// Of each ten seconds the slowest 64 requests are kept for a minute, and 8 for an hour of windows with requests: 0.7
// MB, and up to a kilobyte of each name.
//
// The time to the first answer counts: for an acquire that has to queue up, to its AcquireSemaphorePending. A
// message is received when gRPC has all of it, and sent when gRPC has taken it for the connection: the sockets'
// buffers are not seen, nor requests that gRPC holds while the stream is not read. Starts and stops of sessions,
// pings and unary calls are left out. On a server that does not lead, the leader and the way there are one stage.
package slowest
