package inspect

import (
	"testing"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
)

// rates are buckets, each with the rate of its id.
type rates map[coordination.ResourceKey]float64

func (r rates) Recent() (keys []coordination.ResourceKey) {
	for key, rate := range r {
		if rate > 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

func (r rates) States(keys []coordination.ResourceKey, yield func(int, quota.State)) {
	for i, key := range keys {
		if rate, there := r[key]; there {
			yield(i, quota.State{PerSecond: rate})
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
	buckets, now := make(rates), time.Unix(1_000_000_000, 0)
	sample := func() {
		u.Sample(now, buckets)
		now = now.Add(10 * time.Second)
	}
	for id := 1; id <= maxUsages+10; id++ {
		buckets[key(id)] = float64(id)
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
	delete(buckets, key(maxUsages))
	buckets[key(maxUsages+1)] = 0
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
