package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
)

// The client has a method for each route of the document: a new route needs one. Each method is called, with
// names for its arguments, and once more without a team. An answer that is a problem is an error of each.
func TestEveryRouteHasAMethod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.serve()
	doc, err := w.find().Document(t.Context())
	must(t, err)
	var want []string
	mux := http.NewServeMux()
	var mu sync.Mutex
	asked := map[string]bool{}
	for path, operations := range doc["paths"].(map[string]any) {
		for method := range operations.(map[string]any) {
			pattern := strings.ToUpper(method) + " " + path
			want = append(want, pattern)
			mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				asked[r.Pattern] = true
				w.Header().Set("Content-Type", api.ProblemType)
				w.WriteHeader(http.StatusTeapot)
				_, _ = io.WriteString(w, `{"code":"error","status":418}`)
			})
		}
	}
	h := httptest.NewServer(mux)
	defer h.Close()
	c, err := client.New(client.Options{Address: h.Listener.Addr().String()})
	must(t, err)
	defer c.Close()
	for m := range reflect.TypeOf(c).Methods() {
		if m.Type.NumIn() < 2 || m.Type.In(1) != reflect.TypeFor[context.Context]() {
			continue // it asks nothing
		}
		for _, first := range []string{"x", ""} {
			in := []reflect.Value{reflect.ValueOf(c), reflect.ValueOf(t.Context())}
			for i := 2; i < m.Type.NumIn() && !(m.Type.IsVariadic() && i == m.Type.NumIn()-1); i++ {
				v := reflect.New(m.Type.In(i)).Elem()
				switch of := v.Addr().Interface().(type) {
				case *string:
					if *of = "x"; i == 2 {
						*of = first
					}
				case *bool:
					*of = first == ""
				case *[]byte:
					*of = []byte("{}")
				case *api.Sent:
					*of = api.Sent{Team: "t", Member: "m", ID: "id"}
				}
				in = append(in, v)
			}
			out := m.Func.Call(in)
			err, _ := out[len(out)-1].Interface().(error)
			if out[0].Kind() == reflect.Func {
				for _, last := range out[0].Seq2() {
					err, _ = last.Interface().(error)
					break
				}
			}
			if p := view.Explain(err); first != "" && p.Code != api.CodeError {
				t.Errorf("%s tells an answer that is a problem as %+v", m.Name, p)
			}
		}
	}
	for _, pattern := range slices.Sorted(slices.Values(want)) {
		if !asked[pattern] {
			t.Errorf("no method asks %s", pattern)
		}
	}
}
