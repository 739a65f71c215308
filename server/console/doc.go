// Package console serves the console: pages for a browser, and the calls that they make. This comment is the contract
// between the two halves; the pages are in web.
//
// # Files
//
// GET / is web/index.html, and GET /console/FILE is web/FILE, for all files below web. Each has an ETag of its content
// and Cache-Control: no-cache. Views are fragments (#/locks, #/lock/NODE/NAME), so no name is in a log or in a
// Referer.
//
// # Calls
//
// POST /api/SERVICE/METHOD calls a method of gRPC with one request: the body is the request as protojson (64-bit
// numbers are strings, bytes are base64), of at most 64 KiB, with Content-Type: application/json; the answer is the
// answer as protojson, of at most 4 MiB. The methods are those of Methods:
//
//	coordd.admin.v1.Inspect/List, Events, Slow, Versions, Children, Rights, EndSession, DeleteSemaphore, UpdateData
//	coordd.admin.v1.Cluster/Status, TransferLeader
//	coordd.admin.v1.Console/Servers (since_millis: only the samples that the page lacks)
//
// EndSession, DeleteSemaphore, UpdateData and TransferLeader change something. They are served with --console=write
// only, to a caller with the right, and want a reason, which goes into the log. The page names what it has shown: the
// semaphore and the order id that the session owns or awaits, or its attachment; the order id of the first owner, "0"
// for no owner; the version; the term. Where it is another way now the refusal is 412 "It has changed since: …", and
// 409 of UpdateData, which names the version.
//
// An answer has the header X-Coordd-Version. A request may give the version that it has as X-Coordd-Have: while the
// answer would be the same, it is 304 without a body.
//
// A refusal is {"code": "NotFound", "message": "a sentence"}, where code is gRPC's name, with the HTTP status of
// httpStatus: 400, 401 (sign in again), 403, 404, 409, 412 (it has changed since), 413, 415, 421, 429, 503, 504.
//
// # Sign-in
//
// POST /api/session with {"key": "…"}, or {"user": "…", "password": "…"}, or {} and a token, answers
//
//	{"token": "…", "user": "…", "rights": ["administrator", "act"], "until": "2026-11-26T01:02:03Z"}
//
// for {} without the token. The token goes with every call as Authorization: Bearer TOKEN. An administrator without a
// name, who came by a key, has the user "". The right "act" is missing where the server lets the console change
// nothing. DELETE /api/session signs out.
//
// A token is good for 12 hours, here only: gRPC refuses it, and the console refuses tokens of gRPC. It ends with the
// user and with his password. No cookie is ever set. Over a plain connection sign-in is refused, unless the browser
// has connected to this machine or to its own: see Console.private.
//
// # Changes
//
// A visible page asks for its views again and again, each 0.5 to 5 s, with the version that it has. It leaves those
// that do not change each time to the one tab of the browser that holds the Web Lock "coordd-live", which asks
//
//	POST /api/live {"views": [{"method": "/coordd.admin.v1.Inspect/List", "request": {…}, "have": "VERSION",
//	                           "everyMillis": 250}]}
//
// with up to 8 views of all tabs. The answer is {"changed": [0, …]}, the places of those that have another version now,
// as soon as there is one, or {"changed": []} after 20 s. The server looks at each view every everyMillis. Until that
// question is asked, and where it is not answered, each page goes on asking for itself.
//
// A browser takes two connections; a server has 64 for all of them, see listen.OfBrowser.
package console
