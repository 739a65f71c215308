// Package check judges a run of the simulation by its history: what clients sent and received, what each server
// executed, and what clients believed. Histories of conformance/crash, which come from real processes, are judged by
// the same checks as far as they go.
package check
