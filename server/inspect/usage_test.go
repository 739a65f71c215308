package inspect

import (
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
)

// rates are buckets, each with a rate since the beginning.
type rates struct {
	of      map[coordination.ResourceKey]float64
	seconds float64
}

func (r *rates) Recent() (keys []coordination.ResourceKey) {
	for key, rate := range r.of {
		if rate > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

func (r *rates) States(keys []coordination.ResourceKey, yield func(int, quota.State)) {
	for i, key := range keys {
		if rate, there := r.of[key]; there {
			yield(i, quota.State{PerSecond: rate, Flow: quota.Flow{Granted: rate * r.seconds}})
		}
	}
}

// Samples are kept for an hour, of the resources that give out most, and no longer than there is something to show.
func TestUsageIsBounded(t *testing.T) {
	t.Parallel()
	key := func(id int) coordination.ResourceKey {
		return coordination.ResourceKey{Node: 1, ID: coordination.ResourceID(id)}
	}
	var u Usage
	buckets, now := &rates{of: make(map[coordination.ResourceKey]float64)}, time.Unix(1_000_000_000, 0)
	sample := func() {
		u.Sample(now, buckets)
		now = now.Add(10 * time.Second)
		buckets.seconds += 10
	}
	for id := 1; id <= maxUsages+10; id++ {
		buckets.of[key(id)] = float64(id)
	}
	for range maxSamples + 5 {
		sample()
	}
	for id := 1; id <= maxUsages+10; id++ {
		samples := u.of(key(id))
		if id <= 10 {
			if len(samples) != 0 {
				t.Errorf("resource %d, which gives out least, has %d samples", id, len(samples))
			}
			continue
		}
		if last := len(samples) - 1; last != maxSamples-1 || samples[last].GetPerSecond() != float64(id) ||
			samples[last].GetAtMillis() != uint64(now.Add(-10*time.Second).UnixMilli()) {
			t.Errorf("resource %d has %d samples", id, last+1)
		}
	}
	delete(buckets.of, key(maxUsages))
	buckets.of[key(maxUsages+1)] = 0
	sample()
	if u.of(key(maxUsages)) != nil || u.of(key(10)) == nil {
		t.Error("the place of a dropped resource is not given to the next one")
	}
	for range maxSamples {
		sample()
	}
	if u.of(key(maxUsages+1)) != nil {
		t.Error("a resource that has given out nothing for an hour is kept")
	}
}

// Each unit is in one sample, whenever in the ten seconds it went out; those of a time without samples are in the next
// one. A bucket that was made anew gives no negative rate.
func TestUsageCountsOnce(t *testing.T) {
	t.Parallel()
	var u usage
	now, state, units, seconds := time.Unix(1_000_000_000, 0), quota.State{}, 0.0, 0.0
	u.add(now, &state)
	for i := range 200 {
		passed := 10.0
		if i%50 == 49 { // the server was paused
			passed = 70
		}
		state.Granted, state.Used = state.Granted+float64(i%3*40), state.Used+float64(i%2*15)
		state.PerSecond = 1000 // what the bucket makes of it
		now = now.Add(time.Duration(passed) * time.Second)
		u.add(now, &state)
		units += float64(u.samples[len(u.samples)-1].perSecond) * passed
		seconds += passed
	}
	if want := state.Granted + state.Used; units < want-0.01 || units > want+0.01 {
		t.Errorf("%v units in the samples of %v s, of %v", units, seconds, want)
	}
	u.add(now.Add(10*time.Second), &quota.State{Flow: quota.Flow{Granted: 3}, PerSecond: 0.3})
	if got := u.samples[len(u.samples)-1].perSecond; got != 0.3 {
		t.Errorf("a bucket that was made anew has a rate of %v", got)
	}
}
