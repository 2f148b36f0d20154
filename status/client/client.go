// Package client is a client of the teambridge service ("teambridge serve"), over its unix socket or over TCP.
// A program that imports it links no database, and of teambridge only package api.
//
//	c, err := client.Find(stateDir, root.Path()) // or client.New(client.Options{…})
//	sent, err := c.Send(ctx, "myteam", "worker", "review-12", api.NewMessage{Text: "please review task 12"})
//	for e, err := range c.Events(ctx, "myteam", client.Now) {
//		…
//	}
//
// Answers have the types of package api. The reference is openapi.json of package
// server, which the service has at /openapi.json.
//
// # Errors
//
//   - *[api.Problem]: the service refused or failed. Its code is a sentinel:
//     errors.Is(err, api.CodeNotFound).
//   - *[UnreachableError], which is [ErrUnreachable]: there was no answer. If Sent is
//     set, the service may have carried out the request. A message that is sent again
//     under the same id is sent once.
//   - *[SkewError]: the answer comes from another version, or from another program.
//   - the cause of ctx, if ctx ended.
//
// # Guarantees
//
// A message without an id is sent at most once. Other requests may be repeated if a kept connection turns out
// to be closed. No proxy is used and no redirect followed. A Client is safe for concurrent use.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"teambridge/status/api"
	"teambridge/status/api/op"
	"teambridge/teams/flock"
)

// Options configures a client. Socket, Address or Dial is needed.
type Options struct {
	Socket  string // path of its unix socket
	Address string // HOST:PORT of a loopback address
	Token   string // needed with Address

	// Dial connects to the service in another way. Where names that way in error messages.
	Dial  func(context.Context) (net.Conn, error)
	Where string

	// Pipe means that a connection is expensive, such as one to another machine. All requests and streams then
	// share one connection (HTTP/2 without TLS, which the socket of a service accepts). After 15 s of silence it is
	// pinged, and 15 s later it counts as broken.
	Pipe bool

	// Broken, if not nil, is called before each attempt to reconnect a stream of [Client.Events], with the reason.
	// It is called in the goroutine that iterates.
	Broken func(error)

	// Patience is how long an answer may take before the client sends health checks, and how long each of these may
	// take. So a request can wait for the lock of an inbox, but not for a stopped service. 0: no limit.
	Patience time.Duration

	// Silence is how long a stream of events may be silent before it counts as broken;
	// 0: 45 s, three times the heartbeat of the service.
	Silence time.Duration

	// Agent means that the requests come from an agent, which has fewer rights: see [api.AgentHeader].
	Agent bool
}

// A Client talks to one service. Make one with [New] or [Find]. Most of its methods implement [api.Bridge].
type Client struct {
	*conn
	teams
	messages
	history
	relays
	panes
	machines
}

// conn sends requests to a service.
type conn struct {
	http    *http.Client
	base    string // prefix of paths
	where   string // for messages
	token   string
	agent   bool
	silence time.Duration
	patient time.Duration // see [Options.Patience]
	back    backOff
	broken  func(error)
}

var _ api.Bridge = (*Client)(nil)

// ErrUnreachable means that the service did not answer.
var ErrUnreachable = errors.New("the service does not answer")

// UnreachableError is the reason why there was no answer. It is [ErrUnreachable].
type UnreachableError struct {
	Where string // unix:PATH or HOST:PORT
	Sent  bool   // the request may have reached the service, which may have carried it out
	Err   error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the service at %s does not answer: %v", e.Where, e.Err)
}

// Unwrap returns ErrUnreachable and e.Err.
func (e *UnreachableError) Unwrap() []error { return []error{ErrUnreachable, e.Err} }

// SkewError means that the service has another version, or is another program.
type SkewError struct {
	Where  string
	Reason string
	Err    error // *[api.Problem], if the service gave one
}

func (e *SkewError) Error() string {
	return fmt.Sprintf("the service at %s is another version or another program: %s; restart it with this teambridge", e.Where, e.Reason)
}

// Unwrap returns e.Err.
func (e *SkewError) Unwrap() error { return e.Err }

// New returns a client. It does not connect. It fails if opts are invalid.
func New(opts Options) (*Client, error) {
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	c := &conn{
		base: "http://teambridge", where: opts.Where, token: opts.Token, agent: opts.Agent, silence: cmp.Or(opts.Silence, 45*time.Second), patient: opts.Patience,
		back: backOff{100 * time.Millisecond, 5 * time.Second}, broken: opts.Broken,
	}
	dial := opts.Dial
	switch {
	case opts.Socket != "" && opts.Address != "", dial != nil && opts.Socket+opts.Address != "":
		return nil, errors.New("client: several of socket, address and dial are set")
	case opts.Socket != "":
		c.where = "unix:" + opts.Socket
		dial = func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "unix", opts.Socket) }
	case opts.Address != "":
		c.base, c.where = "http://"+opts.Address, opts.Address
		dial = func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", opts.Address) }
	case dial == nil:
		return nil, errors.New("client: neither a socket nor an address nor dial is set")
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dial(ctx)
			if err != nil && !errors.As(err, new(*net.OpError)) {
				err = &net.OpError{Op: "dial", Net: "teambridge", Err: err} // nothing was sent
			}
			return conn, err
		},
		DisableCompression: true,
		MaxIdleConns:       4,
		IdleConnTimeout:    30 * time.Second,
	}
	if opts.Pipe {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
		transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: signOfLife, PingTimeout: signOfLife}
		transport.MaxConnsPerHost, transport.IdleConnTimeout = 1, 0
	}
	c.http = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Client{c, teams{c}, messages{c}, history{c}, relays{c}, panes{c}, machines{c}}, nil
}

// signOfLife is the silence of a pipe after which it is pinged, and the time that the answer may take.
const signOfLife = 15 * time.Second

// Find returns a client of the service for the Claude directory with the real path root,
// whose files are in the directory state. The error is fs.ErrNotExist if no service runs,
// and a *[SkewError] if this package does not know its API. Find does not connect.
func Find(state, root string) (*Client, error) { return FindWith(state, root, Options{}) }

// FindWith is Find with further options.
func FindWith(state, root string, opts Options) (*Client, error) {
	// Read the card first: that is cheap if there is no service.
	card, err := api.ReadCard(state, root)
	if err != nil {
		return nil, fmt.Errorf("find the service for %s: %w", root, err)
	}
	// A killed service leaves its card, and another program may listen at its address now.
	held, err := flock.Held(api.LockPath(state, root))
	if err != nil {
		return nil, fmt.Errorf("find the service for %s: %w", root, err)
	}
	if !held {
		return nil, fmt.Errorf("find the service for %s: process %d has ended: %w", root, card.PID, fs.ErrNotExist)
	}
	if card.API > api.Level {
		return nil, &SkewError{Where: strings.Join(card.Listen, ", "), Reason: fmt.Sprintf(
			"it has version %d of the API (teambridge %s), and this program has %d", card.API, card.Version, api.Level)}
	}
	for _, l := range card.Listen {
		if path, ok := strings.CutPrefix(l, "unix:"); ok {
			opts.Socket, opts.Address = path, ""
			return New(opts)
		}
		opts.Address = l
	}
	if opts.Address == "" {
		return nil, fmt.Errorf("find the service for %s: it has no address: %w", root, fs.ErrNotExist)
	}
	token, err := os.ReadFile(api.TokenPath(state))
	if err != nil {
		return nil, fmt.Errorf("find the service for %s: read its token: %w", root, err)
	}
	opts.Token = strings.TrimSpace(string(token))
	return New(opts)
}

// Health returns nil if the service runs and can read its journal. It needs no token.
func (c *Client) Health(ctx context.Context) error {
	_, err := call(ctx, c.conn, &op.Health, op.None{})
	return err
}

// Version returns the version of the service, and whether it is read-only.
func (c *Client) Version(ctx context.Context) (api.ServiceVersion, error) {
	return call(ctx, c.conn, &op.Version, op.None{})
}

// Document returns the OpenAPI 3.1 document of the API.
func (c *Client) Document(ctx context.Context) (map[string]any, error) {
	return call(ctx, c.conn, &op.Document, op.None{})
}

// SignIn returns a URL that opens the page of the service, signed in. It works once. With
// file, there is also a file that forwards to it, for the arguments of a browser. The
// error is [api.CodeRefused] if the service listens only on a unix socket.
func (c *Client) SignIn(ctx context.Context, file bool) (api.SignIn, error) {
	return call(ctx, c.conn, &op.SignIn, op.SignInRequest{File: file})
}

// Where returns the place of the service: unix:PATH or HOST:PORT.
func (c *Client) Where() string { return c.where }

// RoundTrip forwards a request of a proxy to the service. It ignores scheme and host of the request's URL.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	base, err := url.Parse(c.base)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = base.Scheme, base.Host
	return c.http.Transport.RoundTrip(r)
}

// Close closes idle connections. Streams and requests in progress continue.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// The largest sizes of answers, in bytes.
const (
	maxAnswer  = 256 << 20
	maxProblem = 1 << 20
)

// ask sends a request, and decodes the answer into v.
func (c *conn) ask(ctx context.Context, method, path string, header http.Header, in, v any) (status int, err error) {
	if c.patient > 0 && path != op.Health.Path {
		var done func()
		ctx, done = c.whileThere(ctx)
		defer done()
	}
	res, err := c.open(ctx, method, path, header, in, "application/json", "JSON")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return 0, c.unreachable(ctx, true, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return 0, c.skewed(nil, "the answer to %s %s: %v", method, path, err)
	}
	return res.StatusCode, nil
}

// whileThere returns a context that ends when the service fails a health check. The checks begin after c.patient.
func (c *conn) whileThere(ctx context.Context) (context.Context, func()) {
	bound, end := context.WithCancelCause(ctx)
	late := time.AfterFunc(c.patient, func() {
		for {
			asking, done := context.WithTimeoutCause(bound, c.patient, fmt.Errorf("not even to a health check within %s", c.patient))
			_, err := call(asking, c, &op.Health, op.None{})
			done()
			if err != nil {
				end(&UnreachableError{Where: c.where, Sent: true, Err: err})
				return
			}
			select {
			case <-bound.Done():
				return
			case <-time.After(c.patient):
			}
		}
	})
	return bound, func() { late.Stop(); end(nil) }
}

// open sends a request and returns the answer if it is a success, of the media type answer, which is called name. Close
// its body.
func (c *conn) open(ctx context.Context, method, path string, header http.Header, in any, answer, name string) (*http.Response, error) {
	var body io.Reader
	media := "application/json"
	if lines, ok := in.([]byte); ok {
		body, media = bytes.NewReader(lines), api.PayloadsType
	} else if in != nil {
		if text, bad := invalidText(reflect.ValueOf(in)); bad {
			return nil, api.Decide(api.CodeInvalid, "nothing was sent", "a text is not valid UTF-8: %.40q", text)
		}
		data, err := json.Marshal(in)
		if err != nil {
			return nil, api.Decide(api.CodeInvalid, "nothing was sent", "the request: %w", err) // a field of raw JSON is invalid
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("client: %s %s: %w", method, path, err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if in != nil {
		req.Header.Set("Content-Type", media)
	}
	if c.agent {
		req.Header.Set(api.AgentHeader, "1")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		return nil, c.unreachable(ctx, !ok || op.Op != "dial", err)
	}
	given, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode/100 == 2 && given == answer {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 2 {
		return nil, c.skewed(nil, "the answer to %s %s is %q, and no %s", method, path, given, name)
	}
	return nil, c.problem(ctx, req, res)
}

// invalidText returns a text in v that is not valid UTF-8, if there is one. JSON encoding would change it silently.
func invalidText(v reflect.Value) (text string, found bool) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return invalidText(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if text, found := invalidText(v.Field(i)); found {
				return text, true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := 0; v.Type().Elem().Kind() != reflect.Uint8 && i < v.Len(); i++ {
			if text, found := invalidText(v.Index(i)); found {
				return text, true
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			for _, part := range []reflect.Value{key, v.MapIndex(key)} {
				if text, found := invalidText(part); found {
					return text, true
				}
			}
		}
	}
	return "", false
}

// problem decodes an answer that is an error.
func (c *conn) problem(ctx context.Context, req *http.Request, res *http.Response) error {
	request := req.Method + " " + req.URL.Path
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media != api.ProblemType {
		return c.skewed(nil, "the answer to %s is %s as %q", request, res.Status, media)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxProblem))
	if err != nil {
		return c.unreachable(ctx, true, err)
	}
	p := &api.Problem{}
	if err := json.Unmarshal(data, p); err != nil || p.Code == "" {
		return c.skewed(nil, "the answer to %s is %s without a code", request, res.Status)
	}
	switch p.Code {
	case api.CodeNoRoute, api.CodeMethod, api.CodeBody:
		return c.skewed(p, "to %s it says: %s", request, p.Detail)
	}
	return p
}

func (c *conn) skewed(err error, format string, args ...any) error {
	return &SkewError{Where: c.where, Reason: fmt.Sprintf(format, args...), Err: err}
}

// unreachable returns the error for a missing answer: the cause of ctx if that has ended, else an UnreachableError.
func (c *conn) unreachable(ctx context.Context, sent bool, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // u also shows the URL, whose host is made up
	}
	return &UnreachableError{Where: c.where, Sent: sent, Err: err}
}
