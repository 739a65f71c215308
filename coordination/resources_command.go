package coordination

import (
	"math"

	"github.com/coordd/coordd/scheme"
)

// Real is a double of the protocol by its bits: what is stored and compared as numbers of that kind is the
// same on every server, also where it is not a number.
type Real uint64

// RealOf is a double as a Real.
func RealOf(v float64) Real { return Real(math.Float64bits(v)) }

// Float is the double.
func (r Real) Float() float64 { return math.Float64frombits(uint64(r)) }

// ResourceProperties are the properties of a rate limiter's resource as a client has set them (ratelimiter.md
// §3); 0 is not set.
type ResourceProperties struct {
	MaxUnitsPerSecond       Real
	MaxBurstSizeCoefficient Real
	PrefetchCoefficient     Real
	PrefetchWatermark       Real
	// MoreSettings is the fields of the settings, and More those of the resource, that this program does not
	// know, encoded as they were sent and in ascending order.
	MoreSettings []byte
	More         []byte
}

// CreateResource makes a resource in the coordination node at Path (§4).
type CreateResource struct {
	CallID
	Caller
	Path     scheme.Path
	Resource string
	ResourceProperties
}

// AlterResource replaces all properties of a resource.
type AlterResource struct {
	CallID
	Caller
	Path     scheme.Path
	Resource string
	ResourceProperties
}

// DropResource removes a resource that has no children.
type DropResource struct {
	CallID
	Caller
	Path     scheme.Path
	Resource string
}
