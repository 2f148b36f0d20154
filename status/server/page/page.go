// Package page is the page of the service, for people: teams, members and what
// they are doing, conversations, and a box to write in. It is plain HTML, CSS and
// JavaScript modules, as they stand in files; nothing is built, and nothing is
// asked of any other host.
//
//	s, err := server.New(server.Options{Page: page.Handler(), …})
//
// What it shows it asks of the service as any client does, with the cookie of the
// browser; openapi.json of package server says how. It holds no secret itself.
//
//   - files/index.html has the frame, files/style.css the looks.
//   - files/app.js puts the parts together: where the reader is (in the fragment of
//     the address), and what comes from the service.
//   - files/live.js is the stream of events, files/ask.js all other requests.
//   - files/history.js keeps the messages of one conversation in their order, and
//     files/outbox.js what was written and is not known to have arrived.
//   - files/people.js shows teams and members, files/talk.js a conversation,
//     files/search.js what was found.
//   - files/text.js makes texts of others safe to look at, files/dom.js elements.
//
// Texts of others become nodes of text, never markup, with control characters and
// marks that reorder text escaped.
package page

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed files
var files embed.FS

// types are those of the files, by extension: what the system would say of an
// extension is another thing on each machine.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// Handler serves the page at / and its files below /ui/.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/ui/")
		if r.URL.Path == "/" {
			name = "index.html"
		}
		data, err := files.ReadFile("files/" + name)
		media := types[path.Ext(name)]
		if !fs.ValidPath(name) || err != nil || media == "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", media)
		_, _ = w.Write(data) // who does not read the answer cannot be told
	})
}
