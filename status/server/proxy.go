package server

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"teambridge/status/api"
	"teambridge/status/view"
)

// Proxy serves the page of a service on another machine, with the rights of a person there, on a loopback port of this
// machine. To is needed.
//
// A one-time code signs one browser in. Its cookie is valid as long as the proxy runs. Requests without the cookie are
// refused, and no other code is issued.
type Proxy struct {
	To   http.RoundTripper // sends requests to the service; it ignores the host of their URLs
	Dirs []string          // directories for a file that opens the page; the first that works is used; none: no file

	cookie string // its name
	secret string // its value
	codes  codes
	pass   *httputil.ReverseProxy
}

// Run listens, calls ready with the address that signs a browser in, and serves until ctx ends.
func (p *Proxy) Run(ctx context.Context, ready func(api.SignIn) error) (err error) {
	var name [6]byte
	_, _ = rand.Read(name[:]) // never fails
	p.cookie, p.secret = "teambridge-"+hex.EncodeToString(name[:]), secret()
	silent := slog.New(slog.DiscardHandler)
	p.pass = &httputil.ReverseProxy{
		Transport: p.To, ErrorLog: slog.NewLogLogger(silent.Handler(), slog.LevelDebug), ErrorHandler: p.failed,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "teambridge"
			r.Out.Host = r.In.Host // a loopback host, the same as in Origin
			r.Out.Header.Del("Cookie")
			r.Out.Header.Del("Authorization")
		},
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	server := &http.Server{
		Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(silent.Handler(), slog.LevelDebug), ConnContext: connContext, BaseContext: func(net.Listener) context.Context { return running },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(&admission{Listener: l, limit: 256, log: silent}) }()
	defer func() {
		stop()
		p.codes.clear()
		if cerr := errors.Join(server.Close(), <-ended); err == nil && !errors.Is(cerr, http.ErrServerClosed) {
			err = cerr
		}
	}()
	code, until := p.codes.issue("", time.Now())
	in := api.SignIn{URL: "http://" + l.Addr().String() + "/?code=" + code, Until: until.UTC()}
	if len(p.Dirs) > 0 {
		if in.File, err = forward(in.URL, p.Dirs...); err != nil {
			return err
		}
		p.codes.attach(code, "", in.File)
	}
	if err := ready(in); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		ended <- err
		return err
	}
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	refuse := func(err error) {
		secure(w.Header())
		w.Header().Set("Connection", "close")
		p.failed(w, r, err)
	}
	if err := foreign(r); err != nil {
		refuse(err)
		return
	}
	code := r.URL.Query().Get("code")
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/" && code != "" && p.codes.use(code, "", time.Now()):
		secure(w.Header())
		http.SetCookie(w, &http.Cookie{Name: p.cookie, Value: p.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	case !p.signedIn(r):
		refuse(api.Decide(api.CodeUnauthorized, `run "teambridge ui" again`, "this browser is not signed in"))
	case r.URL.Path == "/v1/sign-in":
		refuse(api.Decide(api.CodeForbidden, "run: teambridge ui", "a page cannot sign in another one"))
	default:
		if v, ok := r.Context().Value(visitKey{}).(*visitor); ok {
			v.admit()
		}
		p.pass.ServeHTTP(w, r)
	}
}

func (p *Proxy) signedIn(r *http.Request) bool {
	for _, c := range r.CookiesNamed(p.cookie) {
		if subtle.ConstantTimeCompare([]byte(c.Value), []byte(p.secret)) == 1 {
			return true
		}
	}
	return false
}

// failed answers with err as a problem.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the browser has gone away
	}
	problem := view.Problem(err)
	if problem.Code == api.CodeError {
		problem = view.Problem(api.Decide(api.CodeTimeout, "", "the service does not answer: %w", err))
	}
	_ = writeAs(w, api.ProblemType, problem.Status, problem)
}
