package server

import (
	"cmp"
	"context"
	"time"

	"github.com/coordd/coordd/coordination"
)

// A stop takes two seconds at the most, whatever clients and other servers do; only the disk may take longer.
// These bound its parts, one after the other.
const (
	// handOverPatience limits the attempts to send the clients elsewhere and to hand over the leadership, and
	// leavingPatience the first of the two.
	handOverPatience = 500 * time.Millisecond
	leavingPatience  = 250 * time.Millisecond
	// drainPatience limits the wait for calls under way to finish, and for clients to read the end of their streams.
	drainPatience = time.Second
	// abandonPatience limits the rest of a call after its connection was closed.
	abandonPatience = 250 * time.Millisecond
	// diskPatience limits the rest of the stop, before a warning that the disk has not answered.
	diskPatience = 100 * time.Millisecond
)

// Stop ends every stream with Failure UNAVAILABLE, lets calls finish for a second, or until ctx is done if
// that is earlier, and releases everything. It returns when nothing of the server is left, which waits for
// the disk alone: after Drained nobody is served any more, and nothing that was acknowledged is lost if the
// process ends before Stop returns. Later calls return nil at once.
func (s *Server) Stop(ctx context.Context) error {
	var err error
	s.stopOnce.Do(func() {
		s.leaving.Store(true)
		s.held.release()
		s.enforcer.stop()
		s.readiness.Stop()
		s.health.Shutdown()
		draining := s.makeWay(ctx)
		ended := s.drain(ctx, draining)
		close(s.drained)
		s.http.stop()
		slow := time.AfterFunc(diskPatience, func() {
			s.config.Logger.Warn("nobody is served any more, but the disk, or work that was under way, has not come to an end; " +
				"nothing that was acknowledged is lost")
		})
		defer slow.Stop()
		err = s.release(ctx, ended)
	})
	return err
}

// Drained is closed when a stop has come so far that all clients were notified, or cut off.
func (s *Server) Drained() <-chan struct{} { return s.drained }

// makeWay sends clients and leadership elsewhere, as far as that is possible in time. Clients come first: once another
// server leads, this one would have to end their streams silently. The returned channel is closed when no call is
// left.
func (s *Server) makeWay(ctx context.Context) (draining <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.config.replaced.stopPatience, handOverPatience))
	defer cancel()
	announcing, cancelAnnouncing := context.WithTimeout(ctx, cmp.Or(s.config.replaced.stopPatience, leavingPatience))
	s.discovery.SendElsewhere(announcing)
	cancelAnnouncing()
	draining = s.endStreams()
	s.group.HandOver(ctx)
	return draining
}

// endStreams ends all streams, and refuses new calls. gRPC would wait for each handler, and before anything else for
// connections without a byte yet.
func (s *Server) endStreams() <-chan struct{} {
	s.connections.CloseStrangers()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.grpc.GracefulStop()
	}()
	// The Failures come behind the connections' GOAWAY: an SDK that reconnects at once must not get in again.
	s.group.EndStreams(coordination.LinkFailure)
	return finished
}

// drain lets calls finish, then closes the connections of those that do not, and reports whether all have
// ended.
func (s *Server) drain(ctx context.Context, finished <-chan struct{}) (ended bool) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.config.replaced.stopPatience, drainPatience))
	defer cancel()
	select {
	case <-finished:
		return true
	case <-ctx.Done():
	}
	s.connections.CloseAll()
	go s.grpc.Stop() // ends the wait of GracefulStop for connections
	select {
	case <-finished:
		return true
	case <-time.After(abandonPatience):
		s.config.Logger.Error(
			"a call does not end although its connection is closed; the server ends without it")
		return false
	}
}

// release ends all goroutines and closes all files. Where a call did not end, what waits for it is left
// behind.
func (s *Server) release(ctx context.Context, ended bool) error {
	<-s.enforcer.stopped
	if ended {
		s.serving.Wait()
	}
	err := s.group.Stop(ctx)
	s.inspect.Load().History.Stop()
	s.sessions.Stop()
	return err
}
