package inspect

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	// maxUsages bounds the resources whose samples a server keeps, and maxSamples the samples of each: an hour.
	maxUsages  = 32
	maxSamples = 360
)

// Usage keeps samples of the resources of which this server has given out most units in the last hour, 16 bytes each.
// The zero value is empty.
type Usage struct {
	mutex sync.Mutex
	known map[coordination.ResourceKey]*usage
}

type usage struct {
	samples []usageSample // the oldest first
	units   float64       // sum of perSecond
	at      time.Time     // of the last sample
	total   float64       // units that had gone out by then
}

type usageSample struct {
	at               uint32 // seconds since 1970
	waiters          uint32
	perSecond, level float32
}

// Buckets are those of this server.
type Buckets interface {
	Recent() []coordination.ResourceKey
	States(keys []coordination.ResourceKey, yield func(int, quota.State))
}

// Sample adds a sample of each resource that is kept. It is to be called each ten seconds (admin.Charts.Due).
func (u *Usage) Sample(now time.Time, of Buckets) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	keys := slices.AppendSeq(of.Recent(), maps.Keys(u.known))
	states := make(map[coordination.ResourceKey]quota.State, len(keys))
	of.States(keys, func(i int, state quota.State) { states[keys[i]] = state })
	for key, kept := range u.known {
		state, there := states[key]
		if kept.add(now, &state); !there || kept.units == 0 && state.Waiters == 0 {
			delete(u.known, key)
		}
		delete(states, key)
	}
	for key, state := range states {
		u.admit(key, now, &state)
	}
}

// admit begins to keep samples of a resource, in the place of the one with the fewest units if there is no room.
func (u *Usage) admit(key coordination.ResourceKey, now time.Time, state *quota.State) {
	if len(u.known) >= maxUsages {
		var least coordination.ResourceKey
		fewest := state.PerSecond
		for other, of := range u.known {
			if of.units < fewest {
				least, fewest = other, of.units
			}
		}
		if u.known[least] == nil {
			return
		}
		delete(u.known, least)
	}
	if u.known == nil {
		u.known = make(map[coordination.ResourceKey]*usage)
	}
	u.known[key] = new(usage)
	u.known[key].add(now, state)
}

// add adds a sample of the units since the last one, each of which is in one sample. The first has the bucket's own
// rate, and so has that of a bucket which was made anew.
func (u *usage) add(now time.Time, state *quota.State) {
	perSecond, total := state.PerSecond, state.Granted+state.Used
	if passed, more := now.Sub(u.at).Seconds(), total-u.total; len(u.samples) > 0 && passed > 0 && more >= 0 {
		perSecond = more / passed
	}
	u.at, u.total = now, total
	if len(u.samples) >= maxSamples {
		u.samples = append(make([]usageSample, 0, maxSamples), u.samples[1:]...)
	}
	u.samples = append(u.samples, usageSample{uint32(now.Unix()), uint32(state.Waiters), float32(perSecond),
		float32(state.Level)})
	u.units = 0 // anew, so that nothing is lost to rounding
	for _, s := range u.samples {
		u.units += float64(s.perSecond)
	}
}

// of returns the samples of a resource.
func (u *Usage) of(key coordination.ResourceKey) (samples []*adminpb.ResourceSample) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.known[key] == nil {
		return nil
	}
	for _, s := range u.known[key].samples {
		samples = append(samples, &adminpb.ResourceSample{AtMillis: uint64(s.at) * 1000,
			PerSecond: rounded(s.perSecond), Level: rounded(s.level), Waiters: uint64(s.waiters)})
	}
	return samples
}

// rounded leaves a number four digits, for the sake of its text.
func rounded(v float32) float64 {
	short, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', 4, 64), 64)
	return short
}
