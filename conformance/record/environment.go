package record

import (
	"context"

	"github.com/coordd/coordd/conformance"
)

// environment is that of the Recorder's Replay: the database is the script's directory, and nothing happens.
type environment struct {
	conformance.Environment // no other method is called
	database                string
}

// Database implements conformance.Environment, as the rest does.
func (e environment) Database() string { return e.database }

// Directory is the database itself.
func (e environment) Directory() string { return e.database }

// Connect makes a stream that leads nowhere.
func (environment) Connect(context.Context, conformance.StreamOptions) (conformance.Stream, error) {
	return new(deadEnd), nil
}

// deadEnd is a stream on which nothing is sent. It has a size, so that no two have one address.
type deadEnd struct{ _ byte }

// Send implements conformance.Stream, as the rest does.
func (*deadEnd) Send([]byte) error { return nil }

// CloseSend does nothing.
func (*deadEnd) CloseSend() error { return nil }

// Cancel does nothing.
func (*deadEnd) Cancel() {}
