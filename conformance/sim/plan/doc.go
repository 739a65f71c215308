// Package plan describes one run of the simulation: servers, links, clients, and the faults that happen to them.
// Everything random in a plan is drawn when it is made, so that a plan is data: it can be stored, read, cut down to
// the events that matter, and run again. What is random in a run comes from streams of chance of its own, one for
// each part of the world (see Plan.Chance), so that taking out an event moves as little else as possible.
package plan
