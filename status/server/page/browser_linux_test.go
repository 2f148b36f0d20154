package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"teambridge/relay/relaytest/standin"
)

// EnvScreens names a folder for pictures of the page. Unset, none are taken.
const EnvScreens = "TEAMBRIDGE_SCREENSHOTS"

// lifetime is how long a browser lives at most.
const lifetime = 20 * time.Minute

// launch starts a Chromium without the user's files that finds only this host. It
// ends with the test.
func launch(t *testing.T) context.Context {
	t.Helper()
	program := standin.RequireChromium(t)
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), lifetime)
	t.Cleanup(cancel)
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.UserDataDir(filepath.Join(home, "data")), chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// As with a mouse; without one, it would count as a telephone.
		chromedp.Flag("blink-settings", "primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.WSURLReadTimeout(patience),
	)
	ctx, cancel = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancel) // waits for the browser
	ctx, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("the browser does not end: %v", err)
		}
	})
	return ctx
}

// tab is one page in a browser, with cookies of its own.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	requests []string // their addresses
	faults   []string // errors in the page
	expected []string // parts of faults that the test causes
}

// open opens the page of w, signed in if there is an address for that.
func open(t *testing.T, browser context.Context, w *world, address string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("no tab: %v", err)
	}
	err := chromedp.Listen(ctx, func(event any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			p.requests = append(p.requests, e.Request.URL)
		case *runtime.EventExceptionThrown:
			fault := fmt.Sprintf("%+v", e.ExceptionDetails)
			if thrown := e.ExceptionDetails.Exception; thrown != nil {
				fault += ": " + thrown.Description
			}
			p.faults = append(p.faults, fault)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError {
				p.faults = append(p.faults, e.Entry.Text+" "+e.Entry.URL)
			}
		}
	})
	must(t, err)
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if t.Failed() {
			t.Logf("asked for:\n%s", strings.Join(p.requests, "\n"))
		}
		if len(p.requests) < 5 {
			t.Errorf("the browser asked for %v alone", p.requests)
		}
		for _, r := range p.requests {
			if strings.HasPrefix(r, "data:") {
				continue // no request to a host; the browser's own icons are such
			}
			if u, err := url.Parse(r); err != nil || u.Scheme != "http" || u.Host != w.addr {
				t.Errorf("asked another origin: %s", r)
			}
		}
		for _, f := range p.faults {
			known := false
			for _, e := range p.expected {
				known = known || strings.Contains(f, e)
			}
			if !known {
				t.Errorf("in the page: %s", f)
			}
		}
	})
	p.run(call(network.Enable, network.EnableParams{}), call(log.Enable, cdp.Empty{}), chromedp.EmulateViewport(1280, 800), chromedp.Navigate(address))
	return p
}

// expect allows a fault.
func (p *tab) expect(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, part)
}

// step is something to do in a tab.
type step = chromedp.Action[chromedp.Void]

// call is a command of the protocol.
func call[P, R any](command cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

func (p *tab) run(steps ...step) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("%v\n%s", err, p.text())
	}
}

// text returns the text of the page.
func (p *tab) text() string {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// until waits until an expression is true in the page.
func (p *tab) until(expression string, args ...any) {
	p.t.Helper()
	if len(args) > 0 {
		for i, a := range args {
			if text, ok := a.(string); ok {
				args[i] = quote(text)
			}
		}
		expression = fmt.Sprintf(expression, args...)
	}
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	err := chromedp.Do(ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(0)))
	if err != nil {
		p.picture("failed")
		p.t.Fatalf("%v; waited for %s; the page shows:\n%s", err, expression, p.text())
	}
}

// do evaluates an expression for its effect.
func do(expression string) step { return chromedp.Evaluate[chromedp.Void](expression) }

func value[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// live waits until the page receives events.
func (p *tab) live() {
	p.t.Helper()
	p.until(`document.querySelector("#link")?.dataset.link === "live" && document.querySelector("nav .team") !== null`)
}

// alone loads the page as a browser without shared workers does, so that its stream of events is
// among its own requests.
func (p *tab) alone() {
	p.t.Helper()
	p.run(call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `delete globalThis.SharedWorker`}), chromedp.Reload())
	p.live()
}

// choose opens a conversation by its link.
func (p *tab) choose(member string) {
	p.t.Helper()
	p.until(`[...document.querySelectorAll("a.member .member-name")].some(n => n.firstChild.textContent === %s)`, member)
	p.run(do(fmt.Sprintf(`[...document.querySelectorAll("a.member")].find(a => a.querySelector(".member-name").firstChild.textContent === %q).click()`, member)))
	p.until(`document.querySelector("#talk-title")?.firstChild.textContent === %s && document.querySelector(".empty")?.textContent !== "Loading…"`, member)
}

// write types into the box and sends with the keyboard.
func (p *tab) write(text string) {
	p.t.Helper()
	p.run(chromedp.SendKeys(chromedp.CSS("#text"), text), chromedp.KeyEvent("\r", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
}

// intercept holds the next request for an address. answer waits for it, continues it
// with a step, and lets all others pass again.
func (p *tab) intercept(pattern string, stage fetch.RequestStage) (answer func(func(fetch.RequestID) step)) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	paused := make(chan fetch.RequestID, 10)
	if err := chromedp.Listen(ctx, func(event any) {
		if e, ok := event.(*fetch.EventRequestPaused); ok {
			paused <- e.RequestID
		}
	}); err != nil {
		p.t.Fatal(err)
	}
	p.run(call(fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: pattern, RequestStage: stage}}}))
	return func(become func(fetch.RequestID) step) {
		p.t.Helper()
		defer cancel()
		select {
		case id := <-paused:
			p.run(become(id), call(fetch.Disable, cdp.Empty{}))
		case <-ctx.Done():
			p.t.Fatalf("nothing was asked of %s", pattern)
		}
	}
}

// block blocks requests for these addresses, and no longer those for others.
func (p *tab) block(patterns ...string) {
	p.t.Helper()
	list := []*network.BlockPattern{}
	for _, pattern := range patterns {
		list = append(list, &network.BlockPattern{URLPattern: pattern, Block: true})
	}
	p.run(call(network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: list}))
}

// quote returns a text as a JavaScript string.
func quote(text string) string {
	data, _ := json.Marshal(text) // a string always can be
	return string(data)
}

// bubble returns an expression for the last message with a text.
func bubble(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".bubble")].filter(b => b.textContent.includes(%s)).at(-1)`, quote(text))
}

// picture takes pictures of the page, light and dark, if that is wanted.
func (p *tab) picture(name string) {
	p.t.Helper()
	dir := os.Getenv(EnvScreens)
	if dir == "" {
		return
	}
	must(p.t, os.MkdirAll(dir, 0o755))
	for _, theme := range []string{"light", "dark"} {
		p.theme(theme)
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		shot, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{})
		cancel()
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+"-"+theme+".png"), shot.Data, 0o644)
		}
		if err != nil {
			p.t.Errorf("picture %s: %v", name, err)
		}
	}
}

// theme makes the page light or dark, without motion, so that pictures show the final state.
func (p *tab) theme(theme string) {
	p.t.Helper()
	p.run(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}))
}

func (p *tab) size(width, height int64) {
	p.t.Helper()
	p.run(chromedp.EmulateViewport(width, height))
	p.until(fmt.Sprintf(`innerWidth === %d`, width))
}
