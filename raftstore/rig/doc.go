// Package rig crashes programs that write files. Memory is a file system that knows what is durable; Crash returns an
// image of what a power cut may leave of it: every name and every write that was not synced whole, absent, or torn, in
// any order. Only tests import it.
package rig
