package server

import (
	"bufio"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"teambridge/status/api"
	"teambridge/status/api/op"
	"teambridge/status/bridge/bridgetest"
	"teambridge/status/client"
	"teambridge/teams/teamstest"
	"teambridge/teams/winetest"
)

// A client of a service passes the suite of the bridge, and the service's answers match the document.
func TestBridge(t *testing.T) {
	t.Parallel()
	winetest.SkipUnix(t, "a service listens on a port")
	bridgetest.Run(t, func(t *testing.T, f *teamstest.Fixture) api.Bridge {
		h := httptest.NewServer((&world{f}).start(t).checked(t))
		c, err := client.New(client.Options{Address: h.Listener.Addr().String()})
		must(t, err)
		t.Cleanup(func() { c.Close(); h.CloseClientConnections(); h.Close() })
		return c
	})
}

// checked passes requests on to the service, and checks its answers against the document.
func (r *running) checked(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, asked *http.Request) {
		req := asked.Clone(asked.Context())
		req.URL.Scheme, req.URL.Host, req.RequestURI = "http", "teambridge", ""
		res, err := r.client.Transport.RoundTrip(req)
		if err != nil { // the client or the service has gone
			panic(http.ErrAbortHandler)
		}
		defer res.Body.Close()
		maps.Copy(w.Header(), res.Header)
		w.WriteHeader(res.StatusCode)
		switch media := res.Header.Get("Content-Type"); media {
		case op.EventStream:
			e := &events{t: t, doc: r.doc, in: bufio.NewReader(io.TeeReader(res.Body, flushed{w}))}
			for err == nil {
				_, err = e.next()
			}
		case api.LinesType:
			_, err = io.Copy(flushed{w}, res.Body)
		default:
			var data []byte
			if data, err = io.ReadAll(res.Body); err == nil {
				r.doc.conforms(t, req.Method, r.pattern(req), res.StatusCode, media, data)
				_, err = w.Write(data)
			}
		}
		if err != nil && err != io.EOF {
			panic(http.ErrAbortHandler)
		}
	}
}

// flushed writes at once.
type flushed struct{ http.ResponseWriter }

func (f flushed) Write(data []byte) (int, error) {
	n, err := f.ResponseWriter.Write(data)
	if err == nil {
		err = http.NewResponseController(f.ResponseWriter).Flush()
	}
	return n, err
}
