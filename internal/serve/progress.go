package serve

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coordd/coordd/internal/notify"
)

// moreTime is the time that a long start asks the service manager for with each line about its progress. There is one
// each second.
const moreTime = 30 * time.Second

// progressHandler also reports the lines about the progress of a long start to the service manager, at any log level.
type progressHandler struct {
	slog.Handler
	manager *notify.Manager
}

// Enabled implements slog.Handler.
func (h progressHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h progressHandler) Handle(ctx context.Context, r slog.Record) error {
	if text := progressText(r); text != "" {
		_ = h.manager.Send(fmt.Sprintf("STATUS=%s\nEXTEND_TIMEOUT_USEC=%d", text, moreTime.Microseconds()))
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h progressHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return progressHandler{h.Handler.WithAttrs(attributes), h.manager}
}

// progressText returns what a line about progress has: "reading the log: 3 of 10 files", "" for other lines.
func progressText(r slog.Record) (text string) {
	var done slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "of" {
			text = fmt.Sprintf("%s: %s of %s %s", r.Message, done.Value, a.Value, done.Key)
		}
		done = a
		return true
	})
	return text
}
