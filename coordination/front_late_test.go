package coordination

import "testing"

func (r *frontRig) at(millis uint64) Instant {
	r.now = frontStart.After(millis)
	return r.now
}

// take is expect as the server does it, which says when it hands out a ping.
func (r *frontRig) take(want ...Reply) {
	r.t.Helper()
	if r.front.PingWaits() {
		r.front.PingTaken(r.now)
	}
	r.expect(want...)
	r.expect() // what there was is sent
}

// TestLateTickExcuses has the server stand still over the end of the time for a pong, which lies there
// unread: the client is not failed before the server has had as much time again to read it.
func TestLateTickExcuses(t *testing.T) {
	for _, late := range []uint64{tardyMillis, 700, 1000, 5000, 600_000} {
		for _, answered := range []bool{true, false} {
			r := attached(t, PingPolicy{}, 3000, AllRights)
			r.front.Tick(r.at(1000 + late))
			r.expect()
			if r.front.Ending() != EndingNone {
				t.Fatalf("%d ms late: the client is failed", late)
			}
			if answered {
				r.pong(101)
				r.front.Tick(max(r.now, r.front.Wake()))
				r.expect(Reply{Kind: ReplyPing, Opaque: 102})
				continue
			}
			r.tickAt(1000 + late + min(late, 1000))
			r.expect(Reply{Kind: ReplyFailure, Refusal: PingTimeout})
		}
	}
}

// TestHealthyServerExcusesNothing: a tick that comes as late as one does that was rounded up ends the time
// for a pong, also if many came before it.
func TestHealthyServerExcusesNothing(t *testing.T) {
	for _, policy := range []PingPolicy{{}, {MaxIntervalMillis: 2000}} {
		r := attached(t, policy, 60_000, AllRights)
		for end := uint64(5000); ; {
			now := min(uint64(r.front.Wake()-frontStart)/1_000_000+tardyMillis-1, end+tardyMillis-1)
			if r.front.Tick(r.at(now)).Detach {
				if now > end+tardyMillis {
					t.Errorf("failed at %d ms", now)
				}
				break
			}
			if now >= end {
				t.Fatalf("not failed at %d ms", now)
			}
		}
		r.expect(Reply{Kind: ReplyFailure, Refusal: PingTimeout})
	}
	short := attached(t, PingPolicy{}, 30, AllRights)
	if !short.front.Tick(short.at(10 + 9)).Detach {
		t.Error("a short patience is put off by more than itself")
	}
}

// TestPingIsTakenLate makes a ping wait for a server that does not get round to sending it. The client's time begins
// when it is sent. If the client holds it up because it does not read, its time begins as ever.
func TestPingIsTakenLate(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	r.expect()
	r.pong(101)
	r.tickAt(1000)
	r.front.Tick(r.at(2000)) // nobody has taken it yet
	r.at(2900)
	r.take(Reply{Kind: ReplyPing, Opaque: 102})
	r.tickAt(3900)
	r.expect(Reply{Kind: ReplyFailure, Refusal: PingTimeout})

	soon := attached(t, PingPolicy{}, 3000, AllRights)
	soon.expect()
	soon.pong(101)
	soon.tickAt(1000)
	soon.at(1000 + tardyMillis - 1) // as long as that is usual
	soon.take(Reply{Kind: ReplyPing, Opaque: 102})
	soon.tickAt(2000)
	soon.expect(Reply{Kind: ReplyFailure, Refusal: PingTimeout})

	slow := attached(t, PingPolicy{}, 3000, AllRights)
	slow.pong(101)
	slow.tickAt(1000) // the writer is still busy with what came before
	slow.front.Tick(slow.at(2000))
	slow.expect(Reply{Kind: ReplyPing, Opaque: 102}, Reply{Kind: ReplyFailure, Refusal: PingTimeout})
}

// TestPingClockStandsStill has the server not read the stream for a while: that time does not count, neither
// before a ping nor behind it, and what was left of the client's time is left afterwards.
func TestPingClockStandsStill(t *testing.T) {
	for _, c := range []struct{ from, until, ends uint64 }{
		{300, 900, 1600}, {300, 4300, 5000}, {999, 9999, 10_000},
	} {
		r := attached(t, PingPolicy{}, 3000, AllRights)
		r.front.NotRead(r.at(c.from))
		if c.until > 1000 {
			r.tickAt(1000)
		}
		r.expect()
		r.front.Read(r.at(c.until))
		r.tickAt(c.ends)
		r.expect(Reply{Kind: ReplyFailure, Refusal: PingTimeout})
	}
	r := attached(t, PingPolicy{}, 3000, AllRights)
	r.pong(101)
	r.front.NotRead(r.at(500))
	r.tickAt(1000)
	r.take(Reply{Kind: ReplyPing, Opaque: 102}) // a sign of life, which the client needs
	r.tickAt(2000)
	r.front.Read(r.at(6000))
	r.pong(102)
	r.front.Tick(r.at(7000))
	r.take(Reply{Kind: ReplyPing, Opaque: 103})
}

// TestUnreadStreamEnds gives up a stream that is not read for too long, but not one that must be silent
// meanwhile.
func TestUnreadStreamEnds(t *testing.T) {
	r := attached(t, PingPolicy{}, 3000, AllRights)
	r.front.NotRead(r.at(300))
	r.tickAt(1000)
	r.front.NotRead(r.at(5000)) // it is not read already
	if forward := r.tickAt(300 + unreadMillis); !forward.Detach {
		t.Errorf("forward %+v", forward)
	}
	r.expect(Reply{Kind: ReplyFailure, Refusal: StreamNotRead})
	r.front.Read(r.now)
	if r.front.Wake() != Never {
		t.Error("the dead Front wakes")
	}

	mute := attached(t, PingPolicy{}, 3000, AllRights)
	mute.front.NotRead(mute.at(300))
	mute.front.Mute(true)
	for range 300 {
		mute.now = mute.front.Wake()
		mute.front.Tick(mute.now)
	}
	mute.front.Mute(false)
	mute.expect()
	if mute.front.Ending() != EndingNone {
		t.Error("ended while it must be silent")
	}

	start := newFrontRig(t, PingPolicy{})
	start.front.Receive(&ClientMessage{Kind: ClientStart,
		Start: &AttachRequest{Path: "/local/a", TimeoutMillis: 3000}})
	start.front.NotRead(start.now) // by the protocol (§2.1)
	if start.front.Wake() != Never {
		t.Error("a stream that attaches has a clock")
	}
}
