// Package model is a second, naive implementation of one coordination node as its clients see it. It was
// written from the behavioural specification alone and shares no code with package coordination, so that a
// rule which one of the two misread shows up as a difference when both are given the same random requests.
//
// Everything is a slice and a linear scan; nothing is cached, nothing is fast. Every request is carried out
// completely before the next one is looked at, except between Hold and Release, when requests and expiries
// pile up in one queue, as they do at a leader whose disk is slow. The rings put what has piled up into
// entries of the log of random sizes; the model knows no entries. Strict describes wait for a proof of leadership until
// time passes, on both sides, and later requests of their streams wait for them.
//
// Limiter is the same of the resources of a rate limiter, without their units, which package
// coordination/quota has a model for; TestResources compares random calls.
//
// Left out are permissions, the answers of the scheme calls, gRPC itself, and races in which the
// specification does not say who wins: a theft that meets requests in flight, a start that meets the end of
// its own session.
//
// Where coordd departs from the reference on purpose (two cases: an oversized update is refused without being
// applied; a theft within one server is validated before the old stream is cut), the model departs with it.
//
// The test compares random sequences on the model and on the rings, every message of every stream:
//
//	go test ./conformance/model                            # 2,000 sequences of 200 steps
//	go test ./conformance/model -seqs 20000 -seed 1000000  # others
//	go test ./conformance/model -seqs 1 -seed 4711         # one again
//
// A difference is printed with its seed and the few steps that are enough to produce it. The model's messages are on
// lines that begin with a minus, coordd's on lines with a plus.
//
// Section numbers in comments refer to docs/dev/spec/coordination.md.
package model
