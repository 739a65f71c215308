package coordination

import (
	"fmt"
	"strings"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// The rate limiter's resources of coordination nodes as clients see them: ratelimiter.md, whose sections are
// named here. Only their properties are replicated. Units are handed out by package quota.

// ResourceKey names one incarnation of a resource.
type ResourceKey struct {
	Node NodeID
	ID   ResourceID
}

// Resources are those of a machine, to read from.
type Resources struct{ machine *Machine }

// Resources returns the resources of all nodes.
func (m *Machine) Resources() Resources { return Resources{m} }

// refuseResource is a refusal whose text names a path.
func refuseResource(status outcome.Status, format, path string) outcome.Outcome {
	return outcome.Because(status, fmt.Sprintf(format, path))
}

// node returns the coordination node at path for a call about its resources, or why it is not to be
// had (§4, 5). With access control the caller needs a right on it; the reference asks for none.
func (v Resources) node(path scheme.Path, need scheme.Access, by Caller) (*node, outcome.Outcome) {
	if answer := v.machine.tree.Authorize(path, need, v.machine.Subject(by)); !answer.OK() {
		return nil, answer
	}
	entry, found := v.machine.tree.Lookup(path)
	switch {
	case !found:
		return nil, outcome.Refuse(outcome.SchemeError)
	case entry.Kind != scheme.CoordinationNode:
		return nil, outcome.Because(outcome.BadRequest, "Path is not a coordination node path.")
	}
	return v.machine.nodes[entry.Node], outcome.Done()
}

func (m judge) createResource(c *CreateResource) (scheme.Step, outcome.Outcome) {
	n, answer := m.Resources().node(c.Path, scheme.UpdateRow, c.Caller)
	if n == nil {
		return nil, answer
	}
	if !validResourcePath(c.Resource) {
		return nil, because(ResourcePathInvalid)
	}
	if r := n.resources[c.Resource]; r != nil {
		if r.properties.sameSettings(&c.ResourceProperties) {
			return nil, because(ResourceExists)
		}
		return nil, because(ResourceDiffers)
	}
	if c.Resource == "" {
		return nil, because(ResourcePathEmpty)
	}
	parent, is := parentPath(c.Resource)
	if is && n.resources[parent] == nil {
		return nil, refuseResource(outcome.BadRequest, "Parent resource \"%s\" doesn't exist.", parent)
	}
	if refusal := c.ResourceProperties.refusal(!is); refusal != nil {
		return nil, because(refusal)
	}
	switch {
	case len(c.Resource) > MaxResourcePathBytes:
		return nil, because(ResourcePathTooLong)
	case strings.Count(c.Resource, "/") >= MaxResourceDepth:
		return nil, because(ResourceTooDeep)
	case len(n.resources) >= MaxResources:
		return nil, because(TooManyResources)
	}
	if refusal := m.refusalOf(n, 1, len(c.Resource)+int(c.ResourceProperties.bytes()), 0); refusal != nil {
		return nil, because(refusal)
	}
	return func() { n.addResource(c.Resource, c.ResourceProperties, m.lineage) }, outcome.Done()
}

// resourceToChange returns what AlterResource and DropResource are about, nil if it is missing.
func (m judge) resourceToChange(path scheme.Path, resource string, by Caller) (*node, *resource, outcome.Outcome) {
	n, answer := m.Resources().node(path, scheme.UpdateRow, by)
	switch {
	case n == nil:
		return nil, nil, answer
	case resource == "":
		return nil, nil, because(ResourceNotNamed)
	case !validResourcePath(resource):
		return nil, nil, because(ResourcePathInvalid)
	}
	return n, n.resources[resource], answer
}

func (m judge) alterResource(c *AlterResource) (scheme.Step, outcome.Outcome) {
	n, r, answer := m.resourceToChange(c.Path, c.Resource, c.Caller)
	switch {
	case n == nil:
		return nil, answer
	case r == nil:
		return nil, because(ResourceMissing)
	}
	if refusal := c.ResourceProperties.refusal(r.parent == nil); refusal != nil {
		return nil, because(refusal)
	}
	if refusal := m.refusalOf(n, 0, int(c.ResourceProperties.bytes()),
		int(r.properties.bytes())); refusal != nil {
		return nil, because(refusal)
	}
	return func() {
		n.setProperties(r, c.ResourceProperties)
		m.emit(Effect{Kind: EffectResourceAltered, Node: n.id})
	}, answer
}

func (m judge) dropResource(c *DropResource) (scheme.Step, outcome.Outcome) {
	n, r, answer := m.resourceToChange(c.Path, c.Resource, c.Caller)
	switch {
	case n == nil:
		return nil, answer
	case r == nil:
		return nil, because(ResourceToDropMissing)
	case r.children.first != nil:
		return nil, refuseResource(outcome.BadRequest, "Resource \"%s\" has children.", c.Resource)
	}
	return func() {
		n.removeResource(r)
		m.emit(Effect{Kind: EffectResourceDropped, Node: n.id, Resource: r.id})
	}, answer
}

// Describe returns the own properties of a resource.
func (v Resources) Describe(
	by Caller,
	path scheme.Path,
	resource string,
) (ResourceProperties, outcome.Outcome) {
	n, answer := v.node(path, scheme.SelectRow, by)
	if n == nil {
		return ResourceProperties{}, answer
	}
	r := n.resources[resource]
	if r == nil {
		return ResourceProperties{}, noResource(resource)
	}
	return r.properties, answer
}

func noResource(path string) outcome.Outcome {
	return refuseResource(outcome.NotFound, "Resource with path \"%s\" doesn't exist.", path)
}

// ResourceListing selects the resources to list: the roots, or with Resource set that one; with Recursive those below
// them too.
type ResourceListing struct {
	Path      scheme.Path
	Resource  string
	Recursive bool
}

// ResourcePage is a part of a listing, in the order of ids.
type ResourcePage struct {
	Node  NodeID
	Paths []string
	// Next is where the next page begins, 0 behind the last one.
	Next ResourceID
}

// List returns the page of a listing that begins with the id from, having looked at most resources
// at the most.
func (v Resources) List(
	by Caller,
	l ResourceListing,
	from ResourceID,
	most int,
) (ResourcePage, outcome.Outcome) {
	n, answer := v.node(l.Path, scheme.SelectRow, by)
	if n == nil {
		return ResourcePage{}, answer
	}
	page := ResourcePage{Node: n.id}
	if l.Resource != "" {
		switch r := n.resources[l.Resource]; {
		case r == nil:
			return ResourcePage{}, noResource(l.Resource)
		case !l.Recursive:
			page.Paths = []string{r.path}
			return page, answer
		default:
			from = max(from, r.id) // what is below it came later
		}
	}
	block, in := n.listedResources.seek(uint64(from))
	for looked := 0; ; looked++ {
		r, there := n.listedResources.at(block, in)
		if !there && in > 0 {
			block, in = block+1, 0
			r, there = n.listedResources.at(block, in)
		}
		switch {
		case !there:
			return page, answer
		case looked == most:
			page.Next = r.id
			return page, answer
		case l.shows(r):
			page.Paths = append(page.Paths, r.path)
		}
		in++
	}
}

// shows reports whether a resource is in the listing.
func (l *ResourceListing) shows(r *resource) bool {
	if l.Resource == "" {
		return l.Recursive || r.parent == nil
	}
	below, is := strings.CutPrefix(r.path, l.Resource)
	return is && (below == "" || below[0] == '/')
}

// MayAcquire refuses who may not acquire units of the resources of the node at path, if there is one.
func (v Resources) MayAcquire(by Caller, path scheme.Path) outcome.Outcome {
	return v.machine.tree.Authorize(path, scheme.SelectRow, v.machine.Subject(by))
}

// Find returns the resource that a path names at present.
func (v Resources) Find(path scheme.Path, resource string) (ResourceKey, Effective, bool) {
	entry, found := v.machine.tree.Lookup(path)
	if !found || entry.Kind != scheme.CoordinationNode {
		return ResourceKey{}, Effective{}, false
	}
	r := v.machine.nodes[entry.Node].resources[resource]
	if r == nil {
		return ResourceKey{}, Effective{}, false
	}
	return ResourceKey{entry.Node, r.id}, v.machine.nodes[entry.Node].effective(r), true
}

// Effective returns the values that count for a resource at present, false if it is gone.
func (v Resources) Effective(key ResourceKey) (Effective, bool) {
	r := v.find(key)
	if r == nil {
		return Effective{}, false
	}
	return v.machine.nodes[key.Node].effective(r), true
}

// effective returns the effective settings of a resource of the node for its grants.
func (n *node) effective(r *resource) Effective {
	e := r.effective
	e.Detailed = n.config.DetailedCounters()
	return e
}

// ResourceRate is a resource and its effective rate.
type ResourceRate struct {
	ID   ResourceID
	Rate float64
}

// Rates appends a resource and what is above it up to its root; nothing if it is gone.
func (v Resources) Rates(into []ResourceRate, key ResourceKey) []ResourceRate {
	for r := v.find(key); r != nil; r = r.parent {
		into = append(into, ResourceRate{r.id, r.effective.Rate})
	}
	return into
}

func (v Resources) find(key ResourceKey) *resource {
	n := v.machine.nodes[key.Node]
	if n == nil {
		return nil
	}
	r, _ := n.listedResources.find(uint64(key.ID))
	return r
}
