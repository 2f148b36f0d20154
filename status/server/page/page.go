// Package page is the web page of the service: teams, members and their states,
// conversations, and a box to write in. It is plain HTML, CSS and JavaScript modules,
// served as they are: there is no build step and no request to another host.
//
//	s, err := server.New(server.Options{Page: page.Handler(), …})
//
// The page is a client of the API like any other, authenticated by a cookie. It contains
// no secret itself. The first line of each file says what it is for; files/app.js connects
// the others.
//
// Texts of others become text nodes, never markup. files/marked.js, the npm package marked as it was
// published, parses their Markdown, and is loaded when there is some to show; files/rich.js makes
// the elements. Control characters and marks that reorder text are escaped.
package page

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
)

//go:embed files
var files embed.FS

// types are the media types by extension. Those of package mime differ between machines.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// packed has the requested files, compressed with gzip to 38 % of their size. They do not change while the program
// runs, so each is compressed once.
var packed sync.Map // of []byte by name

func pack(name string, data []byte) ([]byte, error) {
	if known, ok := packed.Load(name); ok {
		return known.([]byte), nil
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	packed.Store(name, b.Bytes())
	return b.Bytes(), nil
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
		w.Header().Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			if small, err := pack(name, data); err == nil { // else it is sent uncompressed
				w.Header().Set("Content-Encoding", "gzip")
				data = small
			}
		}
		_, _ = w.Write(data) // fails if the client has gone away
	})
}
