// Package openloop measures a server at a given rate: requests are sent when they are due, whether or not the ones
// before have been answered, and each latency counts from when its request was due.
//
// A generator on the machine that it measures is easily part of what it measures. So the due times are kept by an
// operating system thread of its own, which sleeps to absolute times (Drive, Monotonic). A request is one write of a
// frame that was encoded before (Client), and costs some 20 us of processor time. The generator's own lateness is
// measured, Row.AtMost and Row.Void judge by that what a row says about the server.
package openloop
