package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"teambridge/relay/process"
)

// The size limits of answers and events.
const (
	maxAnswer = 64 << 20
	maxEvent  = 16 << 20
)

// callTimeout limits a call. A request may hang if the server is not listening yet, and a busy machine may
// answer late.
const callTimeout = time.Minute

// errTooLarge means that an answer or an event exceeds its size limit.
var errTooLarge = errors.New("the answer is too large")

// StatusError is an error response of OpenCode.
type StatusError struct {
	Call    string // such as "POST /api/session"
	Status  int
	Message string // the start of the server's text
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("opencode: %s: status %d: %q", e.Call, e.Status, e.Message)
}

func hasStatus(err error, status int) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && e.Status == status
}

// client calls one server.
type client struct {
	base, user, password string
	http                 *http.Client
}

func newClient(base, user, password string) *client {
	if user == "" {
		user = "opencode" // OpenCode's own default
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil // never send the password through a proxy
	return &client{base: strings.TrimRight(base, "/"), user: user, password: password, http: &http.Client{Transport: t}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

func (c *client) request(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("opencode: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	if c.password != "" {
		r.SetBasicAuth(c.user, c.password)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("opencode: %w", err)
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 500)) // best effort
	path, _, _ = strings.Cut(path, "?")
	return nil, &StatusError{Call: method + " " + path, Status: response.StatusCode, Message: strings.ToValidUTF8(string(text), "\uFFFD")}
}

// call makes one request and decodes the answer into out, if out is not nil.
func (c *client) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := c.request(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("opencode: %s %s: %w", method, path, err)
	case len(data) > maxAnswer:
		return fmt.Errorf("opencode: %s %s: %w: over %d bytes", method, path, errTooLarge, maxAnswer)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("opencode: %s %s: the answer cannot be read: %w", method, path, err)
	}
	return nil
}

// at is the query parameter for a directory.
func at(dir string) string { return "?location%5Bdirectory%5D=" + url.QueryEscape(dir) }

func sessionPath(session, rest string) string {
	return "/api/session/" + url.PathEscape(session) + rest
}

// health returns the version of the server.
func (c *client) health(ctx context.Context) (version string, err error) {
	var h struct {
		Healthy bool
		Version string
	}
	if err := c.call(ctx, http.MethodGet, "/global/health", nil, &h); err != nil {
		// Version 2 has other paths, and answers with a web page.
		var info struct{ Version string }
		_, page := errors.AsType[*json.SyntaxError](err)
		if (page || hasStatus(err, http.StatusNotFound)) && c.call(ctx, http.MethodGet, "/api/info", nil, &info) == nil && info.Version != "" {
			return "", &VersionError{Version: info.Version}
		}
		return "", err
	}
	if !h.Healthy || h.Version == "" {
		return "", errors.New("opencode: the server is not healthy")
	}
	return h.Version, nil
}

// modelRef names a model.
type modelRef struct {
	ID       string `json:"id"`
	Provider string `json:"providerID"`
}

func (m modelRef) String() string { return m.Provider + "/" + m.ID }

// agents returns the number of agents in a directory; 0 while the server loads it.
func (c *client) agents(ctx context.Context, dir string) (int, error) {
	var a struct{ Data []json.RawMessage }
	err := c.call(ctx, http.MethodGet, "/api/agent"+at(dir), nil, &a)
	return len(a.Data), err
}

func (c *client) models(ctx context.Context, dir string) ([]modelRef, error) {
	var a struct{ Data []modelRef }
	err := c.call(ctx, http.MethodGet, "/api/model"+at(dir), nil, &a)
	return a.Data, err
}

// configModel returns the configured model as PROVIDER/MODEL, or "".
func (c *client) configModel(ctx context.Context, dir string) (string, error) {
	var a struct{ Model string }
	err := c.call(ctx, http.MethodGet, "/config?directory="+url.QueryEscape(dir), nil, &a)
	return a.Model, err
}

// info describes a session.
type info struct {
	Parent   string `json:"parentID"`
	Agent    string
	Model    modelRef
	Location struct{ Directory string }
}

func (c *client) session(ctx context.Context, session string) (info, error) {
	var a struct{ Data info }
	err := c.call(ctx, http.MethodGet, sessionPath(session, ""), nil, &a)
	return a.Data, err
}

func (c *client) create(ctx context.Context, session, dir string, model modelRef, agent string) error {
	in := map[string]any{"id": session, "location": map[string]string{"directory": dir}}
	if model.ID != "" {
		in["model"] = model
	}
	if agent != "" {
		in["agent"] = agent
	}
	return c.call(ctx, http.MethodPost, "/api/session", in, nil)
}

func (c *client) setModel(ctx context.Context, session string, m modelRef) error {
	return c.call(ctx, http.MethodPost, sessionPath(session, "/model"), map[string]any{"model": m}, nil)
}

func (c *client) setAgent(ctx context.Context, session, agent string) error {
	return c.call(ctx, http.MethodPost, sessionPath(session, "/agent"), map[string]any{"agent": agent}, nil)
}

// prompt sends a message to a session. The server ignores a repeated message. promoted is the number of the
// event that started the message's turn; 0 before that.
func (c *client) prompt(ctx context.Context, session string, line json.RawMessage) (promoted int64, err error) {
	var a struct {
		Data struct {
			PromotedSeq int64 `json:"promotedSeq"`
		}
	}
	err = c.call(ctx, http.MethodPost, sessionPath(session, "/prompt"), line, &a)
	return a.Data.PromotedSeq, err
}

// active reports whether a turn of the session is running.
func (c *client) active(ctx context.Context, session string) (bool, error) {
	var a struct{ Data map[string]json.RawMessage }
	if err := c.call(ctx, http.MethodGet, "/api/session/active", nil, &a); err != nil {
		return false, err
	}
	_, yes := a.Data[session]
	return yes, nil
}

func (c *client) interrupt(ctx context.Context, session string) error {
	return c.call(ctx, http.MethodPost, sessionPath(session, "/interrupt"), nil, nil)
}

// rest waits until no turn of a session runs.
func (c *client) rest(ctx context.Context, session string) error {
	for {
		if active, err := c.active(ctx, session); err != nil || !active {
			return err
		}
		if err := pause(ctx, nil); err != nil {
			return err
		}
	}
}

// pause waits before a request is repeated. It returns an error if ctx or the server ends.
func pause(ctx context.Context, gone <-chan struct{}) error {
	select {
	case <-time.After(pollRetry):
		return nil
	case <-gone:
		return fmt.Errorf("opencode: %w", ErrEnded)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// historyPage is the number of events per request.
const historyPage = 100

// history yields the durable events of a session after a number, and does not wait for new ones. It skips an
// event that is too large, and marks the next one as missed.
func (c *client) history(ctx context.Context, session string, after int64) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		limit, missed := historyPage, false
		for {
			var page struct{ Data []json.RawMessage }
			query := "?limit=" + strconv.Itoa(limit)
			if after > 0 {
				query += "&after=" + strconv.FormatInt(after, 10)
			}
			err := c.call(ctx, http.MethodGet, sessionPath(session, "/history"+query), nil, &page)
			switch {
			case errors.Is(err, errTooLarge) && limit > 1:
				limit /= 10
				continue
			case errors.Is(err, errTooLarge):
				missed = true
				after++
				continue
			case err != nil:
				yield(record{}, err)
				return
			}
			for _, raw := range page.Data {
				r, err := parseRecord(raw)
				if err != nil {
					yield(record{}, err)
					return
				}
				r.missed, missed = r.missed || missed, false
				after = max(after, r.Seq)
				if !yield(r, nil) {
					return
				}
			}
			if len(page.Data) < limit {
				return
			}
		}
	}
}

// follow yields the durable events of a session after a number, and then new ones, until the connection or
// ctx ends.
func (c *client) follow(ctx context.Context, session string, after int64) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		response, err := c.request(ctx, http.MethodGet, sessionPath(session, "/event?after="+strconv.FormatInt(after, 10)), nil)
		if err != nil {
			yield(record{}, err)
			return
		}
		defer response.Body.Close()
		missed := false
		for data, err := range sse(response.Body, maxEvent) {
			var r record
			switch {
			case errors.Is(err, errTooLarge):
				missed = true
				continue
			case err == nil:
				r, err = parseRecord(data)
			}
			if err != nil {
				yield(record{}, err)
				return
			}
			r.missed, missed = r.missed || missed, false
			if !yield(r, nil) {
				return
			}
		}
	}
}

// sse yields the data of the events of a stream. For data over the limit it yields errTooLarge, and
// continues.
func sse(in io.Reader, limit int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var data []byte
		tooLarge := false
		for lines := process.NewLines(in, limit); ; {
			line, size, err := lines.Next()
			if err != nil {
				yield(nil, fmt.Errorf("opencode: events: %w", err))
				return
			}
			long := size > int64(len(line))
			line = bytes.TrimRight(line, "\r")
			value, isData := bytes.CutPrefix(line, []byte("data:"))
			switch {
			case len(line) == 0 && !long:
				if tooLarge && !yield(nil, errTooLarge) || len(data) > 0 && !tooLarge && !yield(data, nil) {
					return
				}
				data, tooLarge = nil, false
			case isData:
				data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
				if tooLarge = tooLarge || long || len(data) > limit; tooLarge {
					data = nil
				}
			}
		}
	}
}
