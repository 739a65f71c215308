package console

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// livePatience is the time for which a browser waits for a change. A view is looked at each minLivePeriod to
	// maxLivePeriod.
	livePatience  = 20 * time.Second
	minLivePeriod = 200 * time.Millisecond
	maxLivePeriod = 5 * time.Second
	maxViews      = 8
)

// view is a call whose answer a page shows, and the version of the answer that it has.
type view struct {
	Method      string          `json:"method"`
	Request     json.RawMessage `json:"request"`
	Have        string          `json:"have"`
	EveryMillis int64           `json:"everyMillis"` // the time between two looks at it, within the bounds

	due time.Time // for the next look
}

var errViews = status.Errorf(codes.InvalidArgument,
	`live: want {"views": [{"method": "…", "request": {…}, "have": "…"}]} with 1 to %d methods that only read`, maxViews)

// parseViews returns the views of a request. Errors: errViews.
func parseViews(body []byte) ([]view, error) {
	var wanted struct {
		Views []view `json:"views"`
	}
	if json.Unmarshal(body, &wanted) != nil || len(wanted.Views) == 0 || len(wanted.Views) > maxViews {
		return nil, errViews
	}
	for _, v := range wanted.Views {
		if changes, known := Methods[v.Method]; !known || changes {
			return nil, errViews
		}
	}
	return wanted.Views, nil
}

// changed returns the places of the views that have another version now, or that the caller may not see any more, among
// those that are due, and when the next one is.
func (b *Bridge) changed(ctx context.Context, views []view) (changed []int, next time.Time) {
	changed, next = []int{}, time.Now().Add(maxLivePeriod)
	for i := range views {
		v := &views[i]
		if !v.due.After(time.Now()) {
			if _, version, err := b.call(ctx, v.Method, v.Request); err != nil || version != v.Have {
				changed = append(changed, i)
			}
			every := time.Duration(min(v.EveryMillis, maxLivePeriod.Milliseconds())) * time.Millisecond
			v.due = time.Now().Add(max(every, minLivePeriod))
		}
		if v.due.Before(next) {
			next = v.due
		}
	}
	return changed, next
}
