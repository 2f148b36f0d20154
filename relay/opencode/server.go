package opencode

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/relay/process"
	"teambridge/teams/atomicfile"
)

const (
	// startTimeout limits the wait for a server's first answer, and the wait until it has loaded the
	// directory.
	startTimeout = 2 * time.Minute
	// tryTimeout limits one readiness check: a server may never answer a request that came before it was
	// listening.
	tryTimeout = time.Second
	// endGrace is how long a server that is no longer needed may take to exit.
	endGrace = 5 * time.Second
)

// server is a running `opencode serve`.
type server struct {
	*client
	version string
	child   *process.Tree
	done    chan struct{} // closed once all output is read and err is set
	err     error
}

// serving is the content of a server's file in [Options.State]. It tells later processes how to reach the
// server. Only the user can read the file.
type serving struct {
	process.Predecessor
	Session  string              `json:"session"` // the session on the server; empty for a read-only server
	Owner    process.Predecessor `json:"owner"`   // the process that started the server
	URL      string              `json:"url"`
	User     string              `json:"user"`
	Password string              `json:"password"`
}

func serverFile(state string, pid int) string {
	return filepath.Join(serversDir(state), strconv.Itoa(pid)+".json")
}

func serversDir(state string) string { return filepath.Join(state, "opencode", "servers") }

// startServer starts a server for a session, or a read-only one if session is empty.
func (o Options) startServer(ctx context.Context, session, configDir string) (*server, error) {
	if o.State == "" {
		return nil, errors.New("opencode: a server needs a state directory")
	}
	if err := os.MkdirAll(serversDir(o.State), 0o700); err != nil {
		return nil, fmt.Errorf("opencode: %w", err)
	}
	var err error
	for range 5 {
		var s *server
		if s, err = o.startOn(ctx, session, configDir); err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, err
}

// envPassword is the variable that passes the password to a server. The server's tools inherit it.
const envPassword = "OPENCODE_SERVER_PASSWORD"

var errPortTaken = errors.New("the port may be taken")

func (o Options) startOn(ctx context.Context, session, configDir string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("opencode: no free port: %w", err)
	}
	password := rand.Text()
	argv := append(slices.Clone(o.command()), "serve", "--hostname", "127.0.0.1", "--port", strconv.Itoa(port))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = o.Dir
	cmd.Env = append(slices.Clone(o.env()), "OPENCODE_SERVER_USERNAME=opencode", envPassword+"="+password, "OPENCODE_DISABLE_AUTOUPDATE=1")
	if configDir != "" {
		cmd.Env = append(cmd.Env, "OPENCODE_CONFIG_DIR="+configDir)
	}
	process.OwnGroup(cmd)
	if session == "" || o.Bound {
		dieWithUs(cmd)
	}
	child, err := process.Start(cmd, false)
	if err != nil {
		return nil, fmt.Errorf("opencode: %w", err)
	}
	s := &server{
		client: newClient("http://127.0.0.1:"+strconv.Itoa(port), "", password), done: make(chan struct{}),
		child: process.NewTree(child, envPassword+"="+password, serverFile(o.State, child.PID)),
	}
	go s.run(o.Stderr)
	if err = s.write(session); err != nil {
		err = fmt.Errorf("opencode: %w", err)
	} else if err = s.poll(ctx, tryTimeout, "answered", func(ctx context.Context) (err error) {
		s.version, err = s.health(ctx)
		return err
	}); err == nil {
		err = s.poll(ctx, callTimeout, "described itself", func(ctx context.Context) error { return o.checkVersion(ctx, s.client, s.version) })
	}
	if err != nil {
		select {
		case <-s.child.Gone():
			<-s.done
			if text := s.child.Said(); strings.Contains(text, "ServeError") || strings.Contains(text, "EADDRINUSE") {
				// The server prints nothing more specific than that.
				return nil, fmt.Errorf("opencode: %s cannot listen on port %d: %w; it said: %.1000q", argv[0], port, errPortTaken, text)
			}
			return nil, s.child.Quote(fmt.Errorf("opencode: %s exited before it was ready: %w", argv[0], s.err))
		default:
		}
		s.kill()
		return nil, err
	}
	return s, nil
}

// write writes the file of [serving].
func (s *server) write(session string) error {
	data, err := json.Marshal(serving{s.child.Predecessor, session, process.Identify(os.Getpid()), s.base, s.user, s.password})
	if err != nil {
		return err
	}
	return atomicfile.Write(s.child.File, data)
}

// run waits for the server's exit. stderr may be nil.
func (s *server) run(stderr io.Writer) {
	s.err = s.child.Run(stderr, nil, func() {})
	s.close()
	close(s.done)
}

// poll calls ask until it succeeds, for at most startTimeout. try limits the first call. The limit grows,
// because the server may have to start over after an abandoned request.
func (s *server) poll(ctx context.Context, try time.Duration, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		asking, stop := context.WithTimeout(ctx, try)
		err := ask(asking)
		stop()
		if err == nil {
			return nil
		}
		if _, wrong := errors.AsType[*VersionError](err); wrong {
			return err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			try = min(2*try, callTimeout) // a busy machine may take long to answer
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-s.gone():
			return errors.New("opencode: the server has ended")
		case <-ctx.Done():
			return fmt.Errorf("opencode: the server never %s: %w", what, err)
		}
	}
}

// gone is closed once the server has ended; it is nil for a shared server.
func (s *server) gone() <-chan struct{} {
	if s == nil || s.child == nil {
		return nil
	}
	return s.child.Gone()
}

func (s *server) kill() {
	s.child.Signal(process.KillGroup)
	<-s.done
}

// freePort returns a port of this machine that is currently free.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// running returns the running servers that have files in a state directory. It removes the files of servers
// that have ended.
func running(state string) ([]serving, error) {
	dir := serversDir(state)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("opencode: %w", err)
	}
	var list []serving
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if filepath.Ext(path) != ".json" {
			continue
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has just ended
		} else if err != nil {
			return nil, fmt.Errorf("opencode: %w", err)
		}
		var s serving
		if err := json.Unmarshal(data, &s); err != nil {
			return nil, fmt.Errorf("opencode: %s: %w", path, err)
		}
		alive, err := s.Alive()
		if err != nil && !errors.Is(err, process.ErrUnverified) {
			return nil, err
		}
		if !alive {
			killTools(s.Password)
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("opencode: %w", err)
			}
			continue
		}
		list = append(list, s)
	}
	return list, nil
}

// killTools kills the tools of a server that was itself killed. OpenCode starts each tool in a session of its
// own, outside the server's group. But only these tools have the server's password in their environment.
func killTools(password string) {
	if password != "" {
		process.KillByEnv(envPassword + "=" + password)
	}
}

// sweep ends servers without an owner: those of this session, and read-only ones. It fails if the owner of a
// server of this session is alive, because two agents would then work on the session.
func (o Options) sweep(ctx context.Context, session string) error {
	list, err := running(o.State)
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.Session != session && s.Session != "" {
			continue
		}
		if owned, err := s.Owner.Alive(); owned || err != nil {
			if s.Session == "" {
				continue
			}
			return fmt.Errorf("opencode: process %d works on session %s already (server: process %d)", s.Owner.PID, session, s.PID)
		}
		if err := s.End(ctx, endGrace); err != nil && !errors.Is(err, process.ErrUnverified) {
			return err
		}
		killTools(s.Password)
	}
	return nil
}

// needed lists the required calls: their paths and methods.
var needed = map[string]string{
	"/api/session":                                          http.MethodPost,
	"/api/session/active":                                   http.MethodGet,
	"/api/session/{sessionID}":                              http.MethodGet,
	"/api/session/{sessionID}/prompt":                       http.MethodPost,
	"/api/session/{sessionID}/history":                      http.MethodGet,
	"/api/session/{sessionID}/event":                        http.MethodGet,
	"/api/session/{sessionID}/interrupt":                    http.MethodPost,
	"/api/session/{sessionID}/model":                        http.MethodPost,
	"/api/session/{sessionID}/agent":                        http.MethodPost,
	"/api/permission/request":                               http.MethodGet,
	"/api/session/{sessionID}/permission/{requestID}/reply": http.MethodPost,
	"/api/question/request":                                 http.MethodGet,
	"/api/session/{sessionID}/question/{requestID}/reply":   http.MethodPost,
	"/api/session/{sessionID}/question/{requestID}/reject":  http.MethodPost,
	"/api/agent": http.MethodGet,
	"/api/model": http.MethodGet,
}

// VersionError means that a version of OpenCode lacks a required call.
type VersionError struct {
	Version string
	Missing []string // empty for a later version, which works differently
}

func (e *VersionError) Error() string {
	if len(e.Missing) == 0 {
		return fmt.Sprintf("opencode: OpenCode %.40q is not supported yet; install 1.18", e.Version)
	}
	return fmt.Sprintf("opencode: OpenCode %.40q has no %s; install 1.18 or newer", e.Version, strings.Join(e.Missing, ", "))
}

// Passed reports whether a version has passed the check, as recorded in this state directory.
func Passed(state, version string) bool {
	_, err := os.Stat(passedPath(state, version))
	return err == nil
}

// passedPath returns the file that records that a version has passed; "" if the version cannot be a file
// name.
func passedPath(state, version string) string {
	if state == "" || strings.ContainsAny(version, `/\:`) || len(version) >= 60 {
		return ""
	}
	return filepath.Join(state, "opencode", "checked-1-"+version)
}

// checkVersion checks that the API description of a server lists all needed calls. The description takes the
// server a second, so a version is checked only once with each state directory.
func (o Options) checkVersion(ctx context.Context, c *client, version string) error {
	passed := passedPath(o.State, version)
	if Passed(o.State, version) {
		return nil
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := c.call(ctx, http.MethodGet, "/doc", nil, &doc); err != nil && !hasStatus(err, http.StatusNotFound) {
		return err
	}
	var missing []string
	for path, method := range needed {
		if _, ok := doc.Paths[path][strings.ToLower(method)]; !ok {
			missing = append(missing, method+" "+path)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return &VersionError{version, missing}
	}
	if passed != "" {
		if err := os.MkdirAll(filepath.Dir(passed), 0o700); err != nil {
			return fmt.Errorf("opencode: %w", err)
		}
		if err := os.WriteFile(passed, nil, 0o600); err != nil {
			return fmt.Errorf("opencode: %w", err)
		}
	}
	return nil
}
