package quota

import (
	"math"
	"testing"

	"github.com/coordd/coordd/coordination"
)

// The rate of a bucket is that of about the last ten seconds, and falls to nothing.
func TestRateOfTheLastSeconds(t *testing.T) {
	s := NewBuckets()
	b := s.Learn(key(1), usual(1000))
	now := coordination.Instant(1_234_567_890)
	at := func(seconds int) coordination.Instant { return now + coordination.Instant(seconds)*1000*millisecond }
	for second := range 60 {
		s.Use(at(second), b, 50)
		if rate := b.State(at(second)).PerSecond; second > 20 && math.Abs(rate-50) > 5 {
			t.Errorf("after %d s of 50 a second it is %g", second, rate)
		}
	}
	if rate := b.State(at(66)).PerSecond; rate <= 0 || rate >= 50 {
		t.Errorf("some seconds later it is %g", rate)
	}
	if rate := b.State(at(90)).PerSecond; rate != 0 {
		t.Errorf("half a minute later it is %g", rate)
	}
}

// Recent returns each resource that is in use once, and only so many.
func TestRecentIsBounded(t *testing.T) {
	s := NewBuckets()
	w := new(Waiter)
	for id := range MaxRecent + 10 {
		b := s.Learn(key(coordination.ResourceID(id)), usual(10))
		s.Use(1, b, 100)
		s.Use(2, b, 1)
	}
	if got := len(s.Recent()); got != MaxRecent {
		t.Errorf("%d are in use", got)
	}
	if got := s.Recent(); len(got) != 0 {
		t.Errorf("%v are in use", got)
	}
	if !s.Wait(3, s.Find(key(7)), 5, w) {
		t.Fatal("nobody may wait")
	}
	if got := s.Recent(); len(got) != 1 || got[0] != key(7) {
		t.Errorf("%v are in use, want one that is waited for", got)
	}
	s.Drop(s.Find(key(7)))
	if got := s.Recent(); len(got) != 0 {
		t.Errorf("%v are in use", got)
	}
}
