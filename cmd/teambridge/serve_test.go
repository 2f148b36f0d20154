package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"teambridge/status/api"
	"teambridge/status/client"
)

// request sends a request to a service that start has started, and prints the status and the body: over the
// socket at the path SOCKET or, with -tcp, at the address in the line "serving" of FILE; -token adds the token:
//
//	request SOCKET METHOD PATH [BODY]
//	request -tcp|-token FILE METHOD PATH [BODY]
func request(ts *testscript.TestScript, neg bool, args []string) {
	way := ""
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		way, args = args[0], args[1:]
	}
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: request [-tcp|-token] SOCKET|FILE METHOD PATH [BODY], request -payloads SOCKET METHOD PATH FILE")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	network, address := "unix", ts.MkAbs(args[0])
	host, media := "teambridge", "application/json"
	if way == "-payloads" {
		media, args[3] = api.PayloadsType, ts.ReadFile(args[3])
	} else if way != "" {
		said := regexp.MustCompile(`(?m)^serving (\d+\.\S+)$`).FindStringSubmatch(ts.ReadFile(args[0]))
		if said == nil {
			ts.Fatalf("it does not serve over TCP")
		}
		network, address, host = "tcp", said[1], said[1]
	}
	req, err := http.NewRequestWithContext(ctx, args[1], "http://"+host+args[2], strings.NewReader(strings.Join(args[3:], "")))
	ts.Check(err)
	req.Header.Set("Content-Type", media)
	if way == "-token" {
		token, err := os.ReadFile(filepath.Join(ts.Getenv("TEAMBRIDGE_STATE"), "api.token"))
		ts.Check(err)
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
	res, err := client.Do(req)
	ts.Check(err)
	defer res.Body.Close()
	_, err = fmt.Fprintln(ts.Stdout(), res.Status)
	ts.Check(err)
	_, err = io.Copy(ts.Stdout(), res.Body)
	ts.Check(err)
}

// visited is the key of the address that visit opened.
type visited struct{}

// visit opens the address in FILE as a browser without cookies, and prints the results of the address, of its
// redirect, and of the API. With -again, another browser opens the last address:
//
//	visit FILE|-again
func visit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: visit FILE|-again")
	}
	at := ts.Value(visited{}).(*string)
	if args[0] != "-again" {
		*at = strings.TrimSpace(ts.ReadFile(args[0]))
	}
	first, err := url.Parse(*at)
	ts.Check(err)
	jar, err := cookiejar.New(nil)
	ts.Check(err)
	client := &http.Client{
		Jar: jar, Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, to := range []string{*at, "/", "/v1/teams"} {
		next, err := first.Parse(to)
		ts.Check(err)
		res, err := client.Get(next.String())
		ts.Check(err)
		ts.Check(res.Body.Close())
		where := res.Header.Get("Location")
		if where == "" {
			where = res.Header.Get("Content-Type")
		}
		_, err = fmt.Fprintln(ts.Stdout(), res.Status, where)
		ts.Check(err)
	}
}

// terminate ends a process as systemd does, and checks its status:
//
//	terminate NAME STATUS
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: terminate NAME STATUS")
	}
	cmd := ts.Value(started{}).(map[string]*exec.Cmd)[args[0]]
	if cmd == nil {
		ts.Fatalf("nothing was started as %s", args[0])
	}
	ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	end(ts, false, args)
}

// notices is the key of the socket for a service's notifications.
type notices struct{}

// notified creates a socket at $NOTIFY_SOCKET or, with TEXT, waits until it has received TEXT:
//
//	notified [TEXT]
func notified(ts *testscript.TestScript, neg bool, args []string) {
	all := ts.Value(notices{}).(*[]*net.UnixConn)
	if len(args) == 0 {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: ts.Getenv("NOTIFY_SOCKET"), Net: "unixgram"})
		ts.Check(err)
		ts.Defer(func() { _ = c.Close() })
		*all = append(*all, c)
		return
	}
	buf := make([]byte, 100)
	c := (*all)[0]
	ts.Check(c.SetReadDeadline(time.Now().Add(patience)))
	n, err := c.Read(buf)
	ts.Check(err)
	if got := string(buf[:n]); neg || got != args[0] {
		ts.Fatalf("told %q, want %q", got, args[0])
	}
}

// mute simulates a service that carries out every request, and whose answers never arrive, like one that dies
// before it has answered; with -changes, only the answers to requests that change something never arrive:
//
//	mute [-changes]
func mute(ts *testscript.TestScript, neg bool, args []string) {
	changes := len(args) == 1 && args[0] == "-changes"
	if neg || len(args) != 0 && !changes {
		ts.Fatalf("usage: mute [-changes]")
	}
	inBetween(ts, func(r *http.Request, ask func() *http.Response) *http.Response {
		if answer := ask(); changes && r.Method == http.MethodGet {
			return answer
		}
		return nil
	})
}

// earlier simulates a service without a number of operations, and without lasting requests, like services of
// earlier versions:
//
//	earlier
func earlier(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: earlier")
	}
	inBetween(ts, func(r *http.Request, ask func() *http.Response) *http.Response {
		status, media, body := http.StatusOK, "application/json", `{"version":"v0.1.0","go":"go1.26","os":"linux","arch":"amd64","readOnly":false}`
		switch path.Base(r.URL.Path) {
		case "version":
		case "outcome", "ask", "wait", "transcript":
			status, media, body = http.StatusNotFound, api.ProblemType, `{"status":404,"code":"no_route","detail":"there is nothing at this path"}`
		default:
			return ask()
		}
		return &http.Response{
			StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}
	})
}

// inBetween simulates a service that answers with the result of pass, which can send the request to the real service.
// After the result nil, the simulated service is gone.
func inBetween(ts *testscript.TestScript, pass func(r *http.Request, ask func() *http.Response) *http.Response) {
	state := ts.Getenv("TEAMBRIDGE_STATE")
	root, err := filepath.EvalSymlinks(ts.Getenv("CLAUDE_CONFIG_DIR"))
	ts.Check(err)
	card, err := api.ReadCard(state, root)
	ts.Check(err)
	to, _ := strings.CutPrefix(card.Listen[0], "unix:")
	socket := ts.MkAbs("mute.sock")
	l, err := net.Listen("unix", socket)
	ts.Check(err)
	card.Listen = []string{"unix:" + socket}
	data, err := json.Marshal(card)
	ts.Check(err)
	ts.Check(os.WriteFile(api.CardPath(state, root), data, 0o600))
	var all sync.WaitGroup
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer in.Close()
				out, err := net.Dial("unix", to)
				if err != nil {
					return
				}
				defer out.Close()
				requests, answers := bufio.NewReader(in), bufio.NewReader(out)
				for {
					r, err := http.ReadRequest(requests)
					if err != nil {
						return
					}
					answer := pass(r, func() *http.Response {
						if r.Write(out) != nil {
							return nil
						}
						answer, _ := http.ReadResponse(answers, r) // the request was carried out
						return answer
					})
					if answer == nil || answer.Write(in) != nil {
						return
					}
				}
			})
		}
	})
	ts.Defer(func() { _ = l.Close(); all.Wait() })
}

// becomes waits until the service reports a state of a message, which must be consumed, lost or unknown:
//
//	becomes SOCKET TEAM MEMBER ID STATE
func becomes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: becomes SOCKET TEAM MEMBER ID STATE")
	}
	c, err := client.New(client.Options{Socket: ts.MkAbs(args[0])})
	ts.Check(err)
	defer c.Close()
	var r api.Receipt
	wait(ts, func() bool {
		r, err = c.Receipt(context.Background(), args[1], args[2], args[3])
		ts.Check(err)
		return r.State == args[4]
	}, func() { ts.Fatalf("%s is %s, want %s", args[3], r.State, args[4]) })
}

// asked waits until an agent of the service asks a new question, and sets a variable to its id:
//
//	asked SOCKET VARIABLE
func asked(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: asked SOCKET VARIABLE")
	}
	c, err := client.New(client.Options{Socket: ts.MkAbs(args[0])})
	ts.Check(err)
	defer c.Close()
	id := ""
	wait(ts, func() bool {
		list, err := c.Relays(context.Background(), "")
		ts.Check(err)
		for _, r := range list {
			for _, q := range r.Questions {
				id = q.ID
			}
		}
		return id != ""
	}, func() { ts.Fatalf("no agent asks") })
	ts.Setenv(args[1], id)
}
