package monitor

import (
	"net/http"
	"net/http/pprof"
)

// Debug is a handler that shows what the process is at, for developers: profiles, goroutines, the command
// line. Some of it takes as long as who asks wishes, and what is in memory shows in it, so it belongs on a
// listener of this machine only.
func Debug() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
