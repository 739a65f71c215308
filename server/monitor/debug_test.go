package monitor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestDebug wants the usual tools to find what they look for, and nothing to be served by the process at
// large.
func TestDebug(t *testing.T) {
	for _, path := range []string{"", "goroutine?debug=1", "heap?debug=1", "cmdline", "symbol"} {
		w := httptest.NewRecorder()
		Debug().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/"+path, nil))
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: %d %.60q", path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	Debug().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/goroutine?debug=1", nil))
	if !strings.Contains(w.Body.String(), "goroutine profile") {
		t.Errorf("%.100q", w.Body)
	}
}
