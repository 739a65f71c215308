package group

import (
	"cmp"
	"context"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// maxListedBytes bounds the paths of a listing: SDKs refuse to receive messages over 64,000,000 bytes.
const maxListedBytes = coordination.MaxDescribedBytes

// DescribeResource returns a resource's own properties once this server is up to date.
func (g *Group) DescribeResource(ctx context.Context, caller coordination.Caller, path scheme.Path,
	resource string) (coordination.ResourceProperties, outcome.Outcome, error) {
	if err := g.CatchUp(ctx); err != nil {
		return coordination.ResourceProperties{}, outcome.Outcome{}, err
	}
	type described struct {
		properties coordination.ResourceProperties
		answer     outcome.Outcome
	}
	d, err := capture(ctx, g, lineageRows, func(m *coordination.Machine) (d described) {
		d.properties, d.answer = m.ResourceToDescribe(caller, path, resource)
		return d
	})
	return d.properties, d.answer, err
}

// ListResources lists resources, a page at a time, in no particular order. Each page is as of its own turn:
// the whole is no snapshot. If the node gives way to another one meanwhile, the listing begins anew.
func (g *Group) ListResources(ctx context.Context, caller coordination.Caller,
	listing coordination.ResourceListing) ([]string, outcome.Outcome, error) {
	if err := g.CatchUp(ctx); err != nil {
		return nil, outcome.Outcome{}, err
	}
	type captured struct {
		coordination.ResourcePage
		answer outcome.Outcome
	}
	var list captured
	bytes := 0
	for {
		page, err := capture(ctx, g, maxReadRows, func(m *coordination.Machine) (c captured) {
			c.ResourcePage, c.answer = m.ListResources(caller, listing, list.Next, maxReadRows-lineageRows)
			return c
		})
		switch {
		case err != nil || !page.answer.OK():
			return nil, page.answer, err
		case list.Node != 0 && list.Node != page.Node:
			list, bytes = captured{}, 0
			continue
		}
		for _, path := range page.Paths {
			bytes += len(path) + 4 // with what is before it in the message
		}
		if bytes > cmp.Or(g.config.listedBytes, maxListedBytes) {
			r := coordination.ResourcesTooLarge
			return nil, outcome.Because(r.Status, r.Text), nil
		}
		page.Paths = append(list.Paths, page.Paths...)
		if list = page; list.Next == 0 {
			return list.Paths, list.answer, nil
		}
	}
}
