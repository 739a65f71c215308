package coordination

import (
	"math"
	"slices"
	"strings"
)

// Bounds of the resources of a node that the reference does not have (ratelimiter.md §2). They are inclusive,
// and part of what every server computes from the log, so they must never change.
const (
	// MaxResources bounds the resources of a node.
	MaxResources = 100_000
	// MaxResourceDepth bounds the elements of a resource's path.
	MaxResourceDepth = 32
	// MaxResourcePathBytes bounds the path of a resource.
	MaxResourcePathBytes = 1024
	// MaxResourceMoreBytes bounds what a resource keeps that this program does not know.
	MaxResourceMoreBytes = 64 << 10
)

// The prefetch of a root that does not set its own (§3).
const (
	defaultPrefetchCoefficient = 0.20
	defaultPrefetchWatermark   = 0.75
)

// Effective has the effective settings of a resource for its grants: its own properties, or those of the resources
// above it.
type Effective struct {
	// Rate is units per second, Prefetch how many seconds of it a full bucket holds, none if it is negative,
	// and Watermark the share of a full bucket below which it is filled up again.
	Rate, Prefetch, Watermark float64
	// Detailed reports that the resource has metrics of its own: so the node is configured.
	Detailed bool
}

// resource is a resource as the machine holds it.
type resource struct {
	id         ResourceID
	path       string
	properties ResourceProperties
	parent     *resource // nil of a root
	children   chain[*resource]
	effective  Effective
	mark       rowMark
	place      neighbours[*resource] // in parent.children
}

func (r *resource) beside() *neighbours[*resource] { return &r.place }
func (r *resource) number() uint64                 { return uint64(r.id) }
func (r *resource) rowMark() *rowMark              { return &r.mark }

func (r *resource) row(n *node) Row {
	return ResourceRow{Node: n.id, ID: r.id, Path: r.path, ResourceProperties: r.properties}
}

// bytes is the resource's part of the node's bytes that StateLimits.NodeBytes bounds.
func (r *resource) bytes() uint64 { return uint64(len(r.path)) + r.properties.bytes() }

func (r *resource) sized() uint64 { return rowBytes + r.bytes() }

func (p *ResourceProperties) bytes() uint64 { return uint64(len(p.MoreSettings) + len(p.More)) }

// sameSettings reports whether a repeated creation is the same one. Metering, which is in More, does not
// count, and what is not a number is never the same.
func (p *ResourceProperties) sameSettings(other *ResourceProperties) bool {
	same := func(a, b Real) bool { return a.Float() == b.Float() }
	return same(p.MaxUnitsPerSecond, other.MaxUnitsPerSecond) &&
		same(p.MaxBurstSizeCoefficient, other.MaxBurstSizeCoefficient) &&
		same(p.PrefetchCoefficient, other.PrefetchCoefficient) &&
		same(p.PrefetchWatermark, other.PrefetchWatermark) &&
		string(p.MoreSettings) == string(other.MoreSettings)
}

// refusal is why the properties cannot be those of a resource; nil if they can. The order is the reference's
// (§3). The burst is not looked at.
func (p *ResourceProperties) refusal(root bool) *Refusal {
	finite := func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
	rate, watermark := p.MaxUnitsPerSecond.Float(), p.PrefetchWatermark.Float()
	switch {
	case !finite(rate):
		return RateNotFinite
	case rate < 0:
		return RateNegative
	case !finite(p.PrefetchCoefficient.Float()):
		return PrefetchNotFinite
	case !finite(watermark):
		return WatermarkNotFinite
	case watermark < 0:
		return WatermarkNegative
	case watermark > 1:
		return WatermarkTooLarge
	case root && rate == 0:
		return RootWithoutRate
	case p.bytes() > MaxResourceMoreBytes:
		return ResourceTooLarge
	}
	return nil
}

// refresh computes the effective values of a resource and of all below it. Every level takes what it does not
// set from the one above, and is no faster than that.
func (r *resource) refresh() {
	p := &r.properties
	e := Effective{Rate: math.MaxFloat64, Prefetch: defaultPrefetchCoefficient,
		Watermark: defaultPrefetchWatermark}
	if r.parent != nil {
		e = r.parent.effective
	}
	for _, own := range []struct {
		value     Real
		effective *float64
	}{{p.PrefetchCoefficient, &e.Prefetch}, {p.PrefetchWatermark, &e.Watermark}} {
		if v := own.value.Float(); v != 0 {
			*own.effective = v
		}
	}
	if rate := p.MaxUnitsPerSecond.Float(); rate != 0 {
		e.Rate = min(rate, e.Rate)
	}
	r.effective = e
	for child := r.children.first; child != nil; child = child.place.next {
		child.refresh()
	}
}

// parentPath is the path without its last element, and whether there is one.
func parentPath(path string) (parent string, is bool) {
	at := strings.LastIndexByte(path, '/')
	return path[:max(at, 0)], at >= 0
}

// validResourcePath reports whether all symbols of a path are allowed in one.
func validResourcePath(path string) bool {
	return strings.IndexFunc(path, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.ContainsRune("._-/:#", c))
	}) < 0
}

// CanonicalResourcePath reports whether a path equals its elements joined again: it has no empty one. The empty path is
// canonical.
func CanonicalResourcePath(path string) bool {
	return path == "" || !slices.Contains(strings.Split(path, "/"), "")
}

// addResource makes a resource. Its parent must be there.
func (n *node) addResource(path string, p ResourceProperties, lineage lineage) {
	n.touch(n)
	if n.nextResource == 0 { // the first ever
		n.nextResource = ResourceID(lineage.base) + 1
	}
	r := &resource{id: n.nextResource, path: path, properties: p}
	n.nextResource++
	n.holdResource(r)
	n.touch(r)
}

// holdResource makes a resource one of the node's, and reports whether its parent is there.
func (n *node) holdResource(r *resource) bool {
	if parent, is := parentPath(r.path); is {
		if r.parent = n.resources[parent]; r.parent == nil {
			return false
		}
		r.parent.children.append(r)
	}
	if n.resources == nil {
		n.resources = make(map[string]*resource)
	}
	n.resources[r.path] = r
	n.listedResources.append(r)
	n.bytes += r.bytes()
	n.use(r.sized())
	r.refresh()
	return true
}

// setProperties gives a resource other properties.
func (n *node) setProperties(r *resource, p ResourceProperties) {
	n.touch(r)
	grown := p.bytes() - r.properties.bytes() // modulo 2^64, as are the sums: it may shrink
	n.bytes += grown
	n.use(grown)
	r.properties = p
	r.refresh()
}

// removeResource forgets a resource that has no children.
func (n *node) removeResource(r *resource) {
	if r.parent != nil {
		r.parent.children.remove(r)
	}
	delete(n.resources, r.path)
	n.listedResources.remove(r)
	n.bytes -= r.bytes()
	n.free(r.sized())
	n.removed(r)
}
