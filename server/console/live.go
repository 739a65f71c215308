package console

import (
	"context"
	"encoding/json"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// livePatience is the time for which a browser waits for a change, and livePeriod the pause between two looks.
	livePatience = 20 * time.Second
	livePeriod   = 500 * time.Millisecond
	maxViews     = 8
)

// view is a call whose answer a page shows, and the version of the answer that it has.
type view struct {
	Method  string          `json:"method"`
	Request json.RawMessage `json:"request"`
	Have    string          `json:"have"`
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

// changed returns the places of the views that have another version now, or that the caller may not see any more.
func (b *Bridge) changed(ctx context.Context, views []view) []int {
	changed := []int{}
	for i, v := range views {
		if _, version, err := b.call(ctx, v.Method, v.Request); err != nil || version != v.Have {
			changed = append(changed, i)
		}
	}
	return changed
}
