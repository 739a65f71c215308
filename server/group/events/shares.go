package events

import "github.com/coordd/coordd/coordination"

// Shares of the files of a class. An event draws tokens, of tokenBytes of a file each, from three buckets: that of its
// node, that of its tenant and that of its class. A tenant has one directory directly below the database; the nodes
// directly below the database are one tenant. To make such a directory takes a right at the database, which no tenant
// has, and all that a tenant makes in his own directory draws from his bucket. (Quotas name tenants as well, but where
// none is set, all would be one.) The tenant of an act is its user, the node its kind.
//
// A node that has used less than a quarter of its bucket is calm, and a tenant with 64 events and then one a minute, at
// most four a second. Others may use only the upper half of their parent's bucket, and half of the events that it may
// have in a second: the rest is for calm nodes of the same tenant, and for calm tenants. Only some hundred tenants that
// flood at once use up that, too. An event without a token is counted in a sum a second, kind and group: that of the
// node, or if its parent has no token even for that, of the tenant, or of the class.
//
// So long does an event stay in the 24 MiB of the abnormal ends; the other classes are in proportion. One tenant,
// however many nodes he has, writes 3 MiB at once, and then each second 3 tokens of 256 bytes and 6 sums (three kinds,
// with locks or without) of about 100: 21 MiB at 1,368 bytes a second take more than 4 hours, and more than 2 where the
// name of his directory has 255 bytes. All tenants together write 12 MiB at once, 3 tokens a second, and the 6 sums of
// the class: 12 MiB take more than 2 hours.

// Class groups rare events that are kept together: a flood of one class displaces nothing of another.
type Class int

// The classes.
const (
	Audit         Class = iota // acts of administrators, and leaders
	AbnormalEnds               // of sessions, and of their locks
	OtherEnds                  // sessions that their clients stopped with locks, and long holds
	Configuration              // persistent semaphores and their data

	Classes
)

// ClassBytes are the sizes of the classes' files, each a multiple of 8 MiB.
var ClassBytes = [Classes]int{16 << 20, 24 << 20, 8 << 20, 16 << 20}

const (
	maxQueued  = 16_384 / int(Classes) // events of a class between two calls of Take
	tokenBytes = 256
	// recordBytes is about what a record takes beside its texts.
	recordBytes = 100
	// burstEvents are the tokens of a node's bucket; a token comes back each second.
	burstEvents = 500
	// A tenant is calm with so many events, and one more each so many seconds.
	calmEvents, calmSeconds = 64, 60
	// maxRefill bounds the seconds after which every bucket is full: half a class, with a token a second for 8 MiB.
	maxRefill = 8 << 20 / 2 / tokenBytes
	// maxTenants bounds the tenants of a class that have buckets; those beyond share one, NoTenant. maxNodes bounds the
	// nodes of a tenant that have buckets, and maxBuckets all nodes; those beyond are not calm.
	maxTenants, maxNodes, maxBuckets = 1024, 256, 16_384
	// NoTenant is also the tenant of nodes that are dropped in the same entry; no directory has this name.
	NoTenant = "/"
)

// level is one of the buckets that an event draws from.
type level int

const (
	ofNode level = iota
	ofTenant
	ofClass
	levels
)

// bucketKey names a bucket of a node. Those of its tenant and class have less of it.
type bucketKey struct {
	class  Class
	tenant string // of Audit: the user
	node   coordination.NodeID
	act    string // of Audit
	group  group
}

// group parts what a client can have in masses from what is looked for.
type group int

const (
	others group = iota
	endsWithLocks
	lostLocks
	leaders
)

// at returns the bucket of a level.
func (k bucketKey) at(l level) bucketKey {
	switch {
	case l == ofClass:
		return bucketKey{class: k.class}
	case l == ofTenant && k.group == leaders:
		return bucketKey{class: k.class, group: leaders}
	case l == ofTenant:
		return bucketKey{class: k.class, tenant: k.tenant}
	}
	return k
}

// summedAt returns what a sum of a level is of.
func (k bucketKey) summedAt(l level) bucketKey {
	sum := k.at(l)
	sum.group = k.group
	return sum
}

// bucket is a share of a class.
type bucket struct {
	burst, again int // tokens, and those that come back each second
	atOnce       int // events in a second
	calm, price  int // the credit of a bucket that was not used, of which a token costs so much; a second gives 1
	calmAtOnce   int // events of a second that are calm
	left, credit int
	drawn        int // events in this second
	sums         int // of children in this second
	children     int // buckets below it
}

// room reports whether there is something for a child.
func (b *bucket) room(calm bool) bool {
	if calm {
		return b.left > 0 && b.drawn < b.atOnce
	}
	return b.left > b.burst/2 && b.drawn < b.atOnce/2
}

// hasSum reports whether there is something for the sum of a child.
func (b *bucket) hasSum() bool { return b.left > b.burst/2 && b.sums < b.atOnce/2 }

// isCalm reports whether a child has hardly used its bucket. One without a bucket is not calm.
func (b *bucket) isCalm() bool { return b != nil && b.credit >= b.price && b.drawn < b.calmAtOnce }

// shares are the buckets, without those that are full.
type shares struct{ buckets [levels]map[bucketKey]*bucket }

func newShares() (s shares) {
	for l := range s.buckets {
		s.buckets[l] = make(map[bucketKey]*bucket)
	}
	return s
}

// refill begins a second, so many after the last one.
func (s *shares) refill(seconds int) {
	for l := range levels { // a bucket that has children stays
		for key, b := range s.buckets[l] {
			b.drawn, b.sums = 0, 0
			b.left, b.credit = min(b.burst, b.left+seconds*b.again), min(b.calm, b.credit+seconds)
			if b.left == b.burst && b.credit == b.calm && b.children == 0 {
				delete(s.buckets[l], key)
				if l < ofClass {
					s.buckets[l+1][key.at(l+1)].children--
				}
			}
		}
	}
}

// get returns a bucket, and makes it unless there are too many.
func (s *shares) get(l level, key bucketKey, parent *bucket, most int) *bucket {
	b := s.buckets[l][key]
	if b != nil || parent != nil && parent.children >= most || len(s.buckets[l]) >= maxBuckets {
		return b
	}
	size := ClassBytes[key.class]
	switch l {
	case ofNode:
		b = &bucket{burst: burstEvents, again: 1, calm: burstEvents / 4, price: 1, calmAtOnce: burstEvents / 4}
	case ofTenant:
		b = &bucket{burst: size / 8 / tokenBytes, again: size >> 23, atOnce: maxQueued / 8,
			calm: calmEvents * calmSeconds, price: calmSeconds, calmAtOnce: 4}
	case ofClass:
		b = &bucket{burst: size / 2 / tokenBytes, again: size >> 23, atOnce: maxQueued / 8 * 5}
	}
	if b.left, b.credit = b.burst, b.calm; parent != nil {
		parent.children++
	}
	s.buckets[l][key] = b
	return b
}

// draw has the buckets that an event draws from; that of its node may be missing.
type draw [levels]*bucket

// drawFor returns the buckets of a key, and the key with the tenant that has them.
func (s *shares) drawFor(key bucketKey) (d draw, shared bucketKey) {
	d[ofClass] = s.get(ofClass, key.at(ofClass), nil, 0)
	if d[ofTenant] = s.get(ofTenant, key.at(ofTenant), d[ofClass], maxTenants); d[ofTenant] == nil {
		key.tenant = NoTenant
		d[ofTenant] = s.get(ofTenant, key.at(ofTenant), d[ofClass], 2*maxTenants) // one more, and one of leaders
	}
	d[ofNode] = s.get(ofNode, key, d[ofTenant], maxNodes)
	return d, key
}

// admit reports whether an event is kept by itself, or of which level the sum is that counts it.
func (d *draw) admit() (single bool, l level) {
	node, tenant, class := d[ofNode], d[ofTenant], d[ofClass]
	has := node == nil || node.left > 0
	switch {
	case has && tenant.room(node.isCalm()) && class.room(tenant.isCalm()):
		return true, 0
	case !class.hasSum():
		return false, ofClass
	case node == nil || !tenant.hasSum():
		return false, ofTenant
	}
	return false, ofNode
}

// charge draws the tokens of an event, or of a sum from the buckets above its level. A sum takes nothing that is for
// calm children.
func (d *draw) charge(single bool, l level, tokens int) {
	for at, b := range d {
		switch {
		case b == nil:
		case single:
			b.drawn++
			b.left -= tokens
			b.credit = max(-b.calm, b.credit-tokens*b.price)
		case level(at) > l:
			b.sums++
			b.left = max(min(b.left, b.burst/2), b.left-tokens)
		}
	}
}
