package alert

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/status/api"
)

// standIn is a server in the place of a service. Its connections are pipes, so that the test can use
// the clock of synctest, and every byte is still written and parsed.
type standIn struct {
	t     *testing.T
	conns chan net.Conn

	mu     sync.Mutex
	asked  []asked
	answer func(n int, w http.ResponseWriter, r *http.Request) // to the request n, from 0; nil: 200
	away   bool
}

// asked is a received request.
type asked struct {
	method, host, path string
	header             http.Header
	body               string
	after              time.Duration // since the start
}

func newStandIn(t *testing.T) *standIn {
	s := &standIn{t: t, conns: make(chan net.Conn)}
	start := time.Now()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		n := len(s.asked)
		s.asked = append(s.asked, asked{r.Method, r.Host, r.RequestURI, r.Header, string(body), time.Since(start)})
		answer := s.answer
		s.mu.Unlock()
		if answer != nil {
			answer(n, w, r)
		}
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(s)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return s
}

func (s *standIn) Accept() (net.Conn, error) {
	c, ok := <-s.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (s *standIn) Addr() net.Addr { return &net.TCPAddr{} }

var errAway = errors.New("connection refused")

func (s *standIn) Close() error {
	close(s.conns)
	return nil
}

func (s *standIn) transport() *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			s.mu.Lock()
			away := s.away
			s.mu.Unlock()
			if away {
				return nil, errAway
			}
			here, there := net.Pipe()
			select {
			case s.conns <- there:
				return here, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
}

func (s *standIn) isAway(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = is
}

func (s *standIn) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// world is a state directory, a server, and the alerts to it.
type world struct {
	*standIn
	opts Options

	a      *Alerter
	closed func() error // ends the process, and returns the error
	warned []string
	noted  []string
}

const secret = "s3cr3tTok3n"

var addresses = map[string]string{
	Ntfy:     "http://127.0.0.1/" + secret + " tk_" + secret,
	Slack:    "http://127.0.0.1/services/T0/B0/" + secret,
	Telegram: "http://127.0.0.1/bot42:" + secret + "/sendMessage -1001",
	Webhook:  "http://127.0.0.1/hook?key=" + secret + " " + secret,
	own:      "http://127.0.0.1/hook\n{\"text\": $plain, \"part\": \"" + secret[:4] + "\", \"key\": \"" + secret + "\"}",
}

const own = "own"

// newWorld makes a world with alerts to a kind of destination. Call it in a bubble.
func newWorld(t *testing.T, kind string) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "address")
	must(t, os.WriteFile(file, []byte(addresses[kind]+"\n"), 0o600))
	if kind == own {
		kind = Webhook
	}
	w := &world{standIn: newStandIn(t)}
	var mu sync.Mutex
	w.opts = Options{
		To: Destination{Kind: kind, File: file}, State: t.TempDir(), Root: "/claude", Transport: w.transport(),
		Warn: func(err error) { mu.Lock(); defer mu.Unlock(); w.warned = append(w.warned, err.Error()) },
		Note: func(s string) { mu.Lock(); defer mu.Unlock(); w.noted = append(w.noted, s) },
	}
	return w
}

// begin starts a process that sends the alerts.
func (w *world) begin() {
	w.t.Helper()
	a, err := Open(w.opts)
	must(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error)
	go func() { ran <- a.Run(ctx) }()
	w.a, w.closed = a, func() error {
		stop()
		return <-ran
	}
}

// begun starts a process that has sent a first alert before.
func (w *world) begun(list ...api.Attention) {
	w.t.Helper()
	w.begin()
	w.waits(list...)
	if n := len(w.requests()); n != 1 {
		w.t.Fatalf("%d alerts at the beginning", n)
	}
	w.mu.Lock()
	w.asked = nil
	w.mu.Unlock()
}

// pass lets time pass, and everything happen in it.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// waits sets the waiting items, and lets a minute pass.
func (w *world) waits(list ...api.Attention) {
	w.a.Update(list)
	w.pass(time.Minute)
}

// bubble runs a test with a time of its own.
func bubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, test)
	})
}

func question(id string) api.Attention {
	return api.Attention{ID: "question/t/worker/" + id, Kind: api.WaitsQuestion, Team: "t", Member: "worker", What: "the private text"}
}

func unread(message string, count int) api.Attention {
	return api.Attention{ID: "unread/t/operator/lead/1", Kind: api.WaitsUnread, Team: "t", Member: "operator", From: "lead", Message: message, Count: count}
}

// text returns the text of an alert, whatever the service.
func (r asked) text(t *testing.T) string {
	t.Helper()
	var m struct{ Title, Text, Message string }
	if err := json.Unmarshal([]byte(r.body), &m); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	if m.Message != "" {
		return m.Title + "\n" + m.Message
	}
	return m.Text
}
