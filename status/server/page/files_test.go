package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"teambridge/teams/errtest"
)

var must = errtest.Must

func serve(t *testing.T, at string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, at, nil))
	return w
}

// Every file is served with its media type, and nothing else is served.
func TestFiles(t *testing.T) {
	t.Parallel()
	n := 0
	err := fs.WalkDir(files, "files", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		w := serve(t, "/ui/"+strings.TrimPrefix(name, "files/"))
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != types[path.Ext(name)] || w.Body.Len() == 0 {
			t.Errorf("%s: %d, %q, %d bytes", name, w.Code, got, w.Body.Len())
		}
		return nil
	})
	if err != nil || n < 14 {
		t.Errorf("%d files, %v", n, err)
	}
	if w := serve(t, "/"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<title>teambridge</title>") {
		t.Errorf("the page: %d %s", w.Code, w.Body)
	}
	for _, at := range []string{"/ui/", "/ui/nothing.js", "/ui/../page.go", "/ui//style.css", "/ui/files/style.css", "/ui/%2e%2e/page.go", "/ui/."} {
		if w := serve(t, at); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", at, w.Code)
		}
	}
}

// packedSize returns how many bytes of a file are sent to a browser.
func packedSize(t *testing.T, name string) int {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/ui/"+name, nil)
	r.Header.Set("Accept-Encoding", "gzip, deflate, br")
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	size := w.Body.Len()
	unpacked, err := gzip.NewReader(w.Body)
	must(t, err)
	data, err := io.ReadAll(unpacked)
	if plain := serve(t, "/ui/"+name).Body.Bytes(); err != nil || !bytes.Equal(data, plain) || w.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("%s: packed it is something else, or %v", name, err)
	}
	return size
}

// References to other files: in the page, to stylesheets, pictures and scripts; in a script, its imports and worker.
var (
	loadedByPage   = regexp.MustCompile(`(?:href|src)="/ui/([^"]+)"`)
	loadedByScript = regexp.MustCompile(`(?m)^(?:import|export)[^;]*? from "\./([^"]+)";|^import "\./([^"]+)";|new SharedWorker\("/ui/([^"]+)"`)
	loadedLater    = regexp.MustCompile(`import\("\./([^"]+)"\)`)
)

// loaded returns the files that a browser loads at first, and the scripts that it loads later.
func loaded(t *testing.T) (now []string, later []string) {
	t.Helper()
	now = []string{"index.html"}
	for n := 0; n < len(now); n++ {
		data, err := files.ReadFile("files/" + now[n])
		must(t, err)
		expression := loadedByScript
		if now[n] == "index.html" {
			expression = loadedByPage
		}
		for _, found := range expression.FindAllStringSubmatch(string(data), -1) {
			if name := strings.Join(found[1:], ""); !slices.Contains(now, name) {
				now = append(now, name)
			}
		}
		for _, found := range loadedLater.FindAllStringSubmatch(string(data), -1) {
			later = append(later, found[1])
		}
	}
	return now, later
}

// The files that a browser loads at first are small, as they are sent, and none that is loaded later is among them.
func TestPageIsSmall(t *testing.T) {
	t.Parallel()
	const most = 100 << 10
	list, err := fs.Glob(files, "files/*")
	must(t, err)
	now, later := loaded(t)
	atOnce, total := 0, 0
	for _, name := range list {
		name = path.Base(name)
		size := packedSize(t, name)
		total += size
		if slices.Contains(now, name) {
			atOnce += size
		}
	}
	t.Logf("%d bytes of %d files are loaded at once, %d of %d in all", atOnce, len(now), total, len(list))
	if atOnce > most {
		t.Errorf("the page loads %d bytes, want at most %d", atOnce, most)
	}
	if len(now) < 40 || len(later) < 2 {
		t.Errorf("loaded are %q, and later %q", now, later)
	}
	for _, name := range later {
		if slices.Contains(now, name) {
			t.Errorf("%s is to be loaded later, and is at once", name)
		}
	}
}

// foreign matches code that makes markup of a text, runs one, or sends a request to another host.
var foreign = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|setHTML|DOMParser|eval\(|new Function|https?:|url\(|@import|style="|<script>|\son[a-z]+="`)

func TestFilesAskNobodyElse(t *testing.T) {
	t.Parallel()
	list, err := fs.Glob(files, "files/*")
	must(t, err)
	for _, name := range list {
		data, err := files.ReadFile(name)
		must(t, err)
		text := strings.ReplaceAll(string(data), `xmlns="http://www.w3.org/2000/svg"`, "")
		if name == "files/marked.js" { // a comment with its home, links for "www.", and images as strings, which nothing calls
			for _, known := range []string{"(https://github.com/", "https://github.com/markedjs/marked", "http://daringfireball.net/", `r="http://"+t[0]`, ".url(", "}url("} {
				text = strings.ReplaceAll(text, known, "")
			}
		}
		if found := foreign.FindString(text); found != "" {
			t.Errorf("%s has %s", name, found)
		}
	}
}

// The foreign file is as its authors published it, so that a new version is taken whole.
func TestMarkedIsAsPublished(t *testing.T) {
	t.Parallel()
	data, err := files.ReadFile("files/marked.js")
	must(t, err)
	_, published, _ := bytes.Cut(data, []byte("*/\n\n"))
	const want = "c622dc6824a1c92c2d10ea9ede2fc872e46128afcc34b298e6ddee6f387ace8e" // sed '$d' node_modules/marked/lib/marked.esm.js | sha256sum, of version 18.2.1
	if got := fmt.Sprintf("%x", sha256.Sum256(published)); got != want {
		t.Errorf("marked.js is %s after its licence, want %s", got, want)
	}
}
