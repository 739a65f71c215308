package inspect

import (
	"context"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/quota"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/clusterpb"
)

// fillBuckets fills in what the servers have of the resources of a page, for the first of them with samples if they are
// asked for.
func (s *Service) fillBuckets(ctx context.Context, page *adminpb.Page, keys []coordination.ResourceKey, samples bool) {
	if len(keys) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	request := &clusterpb.BucketsRequest{Samples: samples}
	for _, key := range keys {
		request.Nodes, request.Resources = append(request.Nodes, uint64(key.Node)),
			append(request.Resources, uint64(key.ID))
	}
	members, answers, unknown := askAll(ctx, s, request,
		func() *clusterpb.BucketsResponse { return s.bucketsHere(request) })
	page.Unknown = append(page.Unknown, unknown...)
	for i, m := range members {
		for j, bucket := range answers[i].GetBuckets() {
			if of := answers[i].GetOf(); j < len(of) && int(of[j]) < len(page.GetResources()) {
				bucket.Server = m.DisplayName()
				resource := page.GetResources()[of[j]]
				resource.Buckets = append(resource.Buckets, bucket)
			}
		}
	}
}

// bucketsHere tells what this server has of resources.
func (s *Service) bucketsHere(r *clusterpb.BucketsRequest) *clusterpb.BucketsResponse {
	response := &clusterpb.BucketsResponse{}
	keys := make([]coordination.ResourceKey, len(r.GetNodes()))
	for i := range keys {
		keys[i] = coordination.ResourceKey{Node: coordination.NodeID(r.GetNodes()[i]),
			ID: coordination.ResourceID(r.GetResources()[i])}
	}
	s.Group.Limiter().States(keys, func(i int, state quota.State) {
		bucket := bucketToPB(&state)
		if i == 0 && r.GetSamples() {
			bucket.Samples = s.Usage.of(keys[0])
		}
		response.Buckets = append(response.Buckets, bucket)
		response.Of = append(response.Of, uint32(i))
	})
	return response
}
