package console

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed web
var web embed.FS

// types are the content types of the files, by their extensions: those of the machine may be others.
var types = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// policy lets a page use files of this server and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// Strict adds the headers that all answers of a listener with a console have.
func Strict(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{"Content-Security-Policy": policy, "X-Frame-Options": "DENY",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}

// Files serves the page at / and its files below /console/.
func Files() http.Handler {
	mux := http.NewServeMux()
	_ = fs.WalkDir(web, "web", func(name string, entry fs.DirEntry, _ error) error { // which is in memory
		if entry.IsDir() {
			return nil
		}
		content, _ := web.ReadFile(name)
		etag := fmt.Sprintf(`"%x"`, sha256.Sum256(content))
		kind := cmp.Or(types[path.Ext(name)], "text/plain; charset=utf-8")
		serve := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			w.Header().Set("ETag", etag)
			w.Header().Set("Content-Type", kind)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		}
		mux.HandleFunc("GET /console"+name[len("web"):], serve)
		if name == "web/index.html" {
			mux.HandleFunc("GET /{$}", serve)
		}
		return nil
	})
	return mux
}
