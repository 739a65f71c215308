// Package wire translates between the protocol's messages and the plain types of the rings, field by field.
// No rule lives here.
package wire
