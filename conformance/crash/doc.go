// Package crash has servers fail at any moment and compares what they say afterwards with what they had
// acknowledged before. Its tests run the built binary: one server that is killed, and a cluster of three that
// is killed, paused, cut and rebuilt under load.
package crash
