package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simagent"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/status/server"
	"teambridge/teams/teamstest"
)

// The page works in a real browser, one for all of these tests.
func TestPage(t *testing.T) {
	browser := launch(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, context.Context)
	}{
		{"conversation", testConversation},
		{"restart", testRestart},
		{"send again", testSendAgain},
		{"fast", testFast},
		{"lost", testLost},
		{"text is text", testTextIsText},
		{"markdown", testMarkdown},
		{"many messages", testManyMessages},
		{"everyone", testEveryone},
		{"unread", testUnread},
		{"join", testJoin},
		{"seen", testSeen},
		{"the place is kept", testPlaceIsKept},
		{"filter", testFilter},
		{"what can be done with a message", testActions},
		{"the lead is gone", testLeadGone},
		{"drafts", testDrafts},
		{"tabs", testTabs},
		{"signed out", testSignedOut},
		{"read-only", testReadOnly},
		{"answer", testAnswer},
		{"work", testWork},
		{"work over reconnects", testWorkReconnects},
		{"forgotten", testForgotten},
		{"a team that ended", testEnded},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			c.test(t, browser)
		})
	}
	t.Run("a real agent", func(t *testing.T) { testRealAgent(t, browser) }) // before the others go on
	t.Run("a real agent at work", func(t *testing.T) { testRealWork(t, browser) })
}

// own returns an expression for the state of our last message with a text.
func own(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".mine .bubble")].filter(b => b.textContent.includes(%s)).at(-1)?.querySelector(".fate")`, quote(text))
}

// shown returns an expression for whether a message with a text is shown.
func shown(text string) string { return bubble(text) + ` !== undefined` }

// A person writes to an agent, sees the message arrive, be taken and be answered,
// finds it by a search, and sees the agent end.
func testConversation(t *testing.T, browser context.Context) {
	hold := make(chan struct{})
	claude, sim := simulate(t,
		simagent.Member{Name: "worker", Handle: func(ctx context.Context, turn simagent.Turn) simagent.Reply {
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return answers(ctx, turn)
		}},
		simagent.Member{Name: "reviewer", Handle: answers})
	w := newWorld(t, claude)
	w.join(sim.Name())
	p := open(t, browser, w, w.address())
	p.live()
	if at := value[string](p, `location.href`); at != "http://"+w.addr+"/" {
		t.Errorf("the address is %s", at)
	}
	p.picture("start")
	p.choose("worker")
	// During a turn, it takes no messages.
	p.write("Please look at the lighthouse plan.\nIt has two lines.")
	p.until(own("lighthouse plan") + `?.textContent === "✓✓ received"`)
	p.write("And then at the budget.")
	p.until(own("budget") + `?.textContent === "✓ sent"`)
	close(hold)
	p.until(own("budget") + `?.textContent === "✓✓ received"`)
	p.until(shown("You said: And then at the budget."))
	p.picture("talk")
	if role := value[string](p, `document.querySelector("#announcements").getAttribute("aria-live")`); role != "polite" {
		t.Errorf("new messages are told %q", role)
	}
	p.until(`document.querySelector("#announcements").textContent.includes("worker: You said: Please look")`)

	// Search, also from the keyboard, and back to the message.
	p.run(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\t"), do(`document.activeElement.blur()`), chromedp.KeyEvent("/"))
	p.until(`document.activeElement.id === "words"`)
	// The key is not part of the words, but a driven browser types it anyway.
	p.run(do(`document.activeElement.value = ""`), chromedp.KeyEvent("lighthouse"))
	p.until(`document.querySelectorAll(".hit").length === 2 && document.querySelector(".hit mark").textContent === "lighthouse"`)
	p.picture("search")
	p.run(do(`[...document.querySelectorAll(".hit")].at(-1).click()`))
	p.until(`document.querySelector(".found-here")?.textContent.includes("Please look") && document.activeElement.classList.contains("found-here")`)
	if at := value[int](p, `document.documentElement.scrollTop + document.body.scrollTop + document.querySelector("main").scrollTop`); at != 0 {
		t.Errorf("the head of the page is scrolled away by %d px", at)
	}

	// The narrow window shows one half at a time.
	p.size(360, 740)
	if over := value[int](p, `document.scrollingElement.scrollWidth - innerWidth`); over > 0 {
		t.Errorf("the page is %d pixels too wide for 360", over)
	}
	p.picture("talk-narrow")
	p.run(chromedp.Click(chromedp.CSS(".back")))
	p.until(`getComputedStyle(document.querySelector("main")).display === "none"`)
	p.picture("people-narrow")
	p.size(1440, 900)

	if _, err := sim.Agent(simagent.Lead).RequestShutdown(t.Context(), "worker", "all done"); err != nil {
		t.Fatal(err)
	}
	member := `[...document.querySelectorAll("a.member")].find(a => a.textContent.includes("worker"))`
	p.until(member + `?.dataset.word === "ended"`)
	if got := value[string](p, member+`.title`); !strings.HasPrefix(got, "Ended · it has shut down · last heard ") {
		t.Errorf("of the one that ended it says %q", got)
	}
	p.until(member + `.querySelector(".dot").title === "Ended"`)
	p.choose("worker")
	p.picture("wide")
}

// More tabs than a browser has connections to a service get events, and can send.
func testTabs(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	tabs := []*tab{open(t, browser, w, w.address())}
	tabs[0].live()
	for len(tabs) < 8 {
		ctx, cancel := chromedp.NewContext(tabs[0].ctx) // with the same cookies
		t.Cleanup(cancel)
		p := &tab{t: t, ctx: ctx}
		if err := chromedp.Do(ctx); err != nil {
			t.Fatalf("tab %d: %v", len(tabs)+1, err)
		}
		p.run(chromedp.Navigate("http://" + w.addr + "/#/team/" + sim.Name() + "/worker"))
		p.live()
		tabs = append(tabs, p)
	}
	all := func(text string) {
		t.Helper()
		for _, p := range tabs {
			p.until(shown(text))
		}
	}
	tabs[0].choose("worker")
	last := tabs[len(tabs)-1]
	last.run(do(`document.querySelector("#text").value = "from the last one"; document.querySelector("form.compose").requestSubmit()`))
	last.until(own("from the last one") + `?.textContent.includes("✓ sent")`)
	all("from the last one")

	// One of the first tabs leaves, and the service is away for a while.
	tabs[1].run(chromedp.Navigate("about:blank"))
	tabs = slices.Delete(tabs, 1, 2)
	tabs[0].expect("ERR_")
	w.end()
	for _, p := range tabs {
		p.until(`document.querySelector("#link").innerText === "Reconnecting"`)
	}
	w.Send(sim.Name(), "team-lead", "worker", "while it was away")
	w.start()
	all("while it was away")
	for _, p := range tabs {
		p.live()
	}
}

// Messages that come while the service is away are shown when it is back, in the
// same page.
func testRestart(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	p := open(t, browser, w, w.address())
	p.expect("ERR_")
	p.live()
	p.alone()
	p.choose("worker")
	w.Send(sim.Name(), "team-lead", "worker", "before it")
	p.until(shown("before it"))
	p.run(do(`window.same = true`))
	w.end()
	p.until(`document.querySelector("#link").dataset.link === "reconnecting" && document.querySelector("#link").innerText === "Reconnecting"`)
	p.picture("reconnecting")
	w.Send(sim.Name(), "team-lead", "worker", "while it was away")
	w.start()
	p.live()
	p.until(shown("while it was away"))
	w.Send(sim.Name(), "team-lead", "worker", "after it")
	p.until(shown("after it") + ` && window.same === true && document.querySelectorAll("main .bubble").length === 3`)

	// A browser does not connect again by itself after an error; the page does, and
	// continues at its position.
	p.expect("503")
	answer := p.intercept("*/v1/events*", fetch.RequestStageRequest)
	w.end()
	w.start()
	w.Send(sim.Name(), "team-lead", "worker", "while it was refused")
	w.recorded(sim.Name(), "while it was refused")
	answer(func(id fetch.RequestID) step {
		return call(fetch.FulfillRequest, fetch.FulfillRequestParams{RequestID: id, ResponseCode: 503})
	})
	p.until(shown("while it was refused") + ` && window.same === true && document.querySelectorAll("main .bubble").length === 4`)
	p.live()
}

// A message whose answer was lost, or that was written while the service was
// away, arrives once when it is sent again.
func testSendAgain(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker"})
	w := newWorld(t, claude)
	p := open(t, browser, w, w.address())
	p.expect("ERR_")
	p.live()
	p.alone()
	p.choose("worker")
	arrives := func(text string) {
		t.Helper()
		p.until(own(text) + `?.textContent === "✓✓ received" && document.querySelectorAll(".outbox li").length === 0`)
		n := 0
		for _, row := range sim.Agent("worker").Log() {
			if row.Text == text {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q was taken %d times", text, n)
		}
	}
	again := func(text string) {
		t.Helper()
		p.until(own(text) + `?.textContent.includes("may not have been sent")`)
		p.run(do(own(text) + `.querySelector("button").click()`))
	}

	// The service sent it, and the answer is lost; an event shows that it is there.
	answer := p.intercept("*/worker/messages", fetch.RequestStageResponse)
	p.write("its answer is lost")
	p.until(own("its answer is lost") + `?.textContent === "✓✓ received"`)
	answer(func(id fetch.RequestID) step {
		return call(fetch.FailRequest, fetch.FailRequestParams{RequestID: id, ErrorReason: network.ErrorReasonConnectionReset})
	})
	arrives("its answer is lost")

	// The same without events: the page does not know the state, and asks.
	p.block("*://*:*/v1/events")
	w.end()
	w.start()
	p.until(`document.querySelector("#link").dataset.link === "reconnecting"`)
	answer = p.intercept("*/worker/messages", fetch.RequestStageResponse)
	p.write("nobody hears of it")
	if _, err := sim.Agent("worker").Wait(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	answer(func(id fetch.RequestID) step {
		return call(fetch.FailRequest, fetch.FailRequestParams{RequestID: id, ErrorReason: network.ErrorReasonConnectionReset})
	})
	again("nobody hears of it")
	p.until(own("nobody hears of it") + `?.textContent === "✓ sent"`)
	p.block()
	p.live()
	arrives("nobody hears of it")

	w.end()
	p.until(`document.querySelector("#link").dataset.link === "reconnecting"`)
	p.write("nobody is there")
	p.until(own("nobody is there") + `?.textContent.includes("may not have been sent")`)
	p.picture("unsure")
	w.start()
	p.live()
	p.run(chromedp.Reload()) // the draft is kept
	p.live()
	again("nobody is there")
	arrives("nobody is there")
}

// A message that an agent takes before it is recorded is shown, too: with the text
// that the page has, and with its receipt.
func testFast(t *testing.T, browser context.Context) {
	claude, sim := simulateAt(t, time.Now, time.Millisecond, simagent.Member{Name: "worker"})
	w := newWorld(t, claude)
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("worker")
	const n = 10
	for i := range n {
		p.write(fmt.Sprintf("message %d, gone in no time", i))
		p.until(own(fmt.Sprintf("message %d, gone", i)) + `?.textContent === "✓✓ received"`)
	}
	p.until(`document.querySelectorAll(".message").length === %d`, n)
	if taken := len(sim.Agent("worker").Log()); taken != n {
		t.Errorf("%d were taken, want %d", taken, n)
	}
	t.Logf("of %d messages %d were recorded", n, len(w.messages(w.client(), sim.Name())))
}

// A lost message shows that, with the reason, and can be sent again.
func testLost(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	w.Send(sim.Name(), "team-lead", "worker", "an older one") // which proves the loss
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("worker")
	p.write("carry this")
	p.until(own("carry this") + `?.textContent.startsWith("✓ sent")`)
	box := w.Inbox(sim.Name(), "worker")
	taken, err := teamstest.Take(t.Context(), box, func(r inbox.Row) bool { return r.Text == "carry this" })
	if err != nil || len(taken) != 1 {
		t.Fatalf("taken %d, %v", len(taken), err)
	}
	p.until(own("carry this") + `?.dataset.state === "lost"`)
	if n := value[int](p, `document.querySelectorAll(".mine .bubble").length`); n != 1 {
		t.Errorf("one message is shown %d times", n)
	}
	if got := value[string](p, own("carry this")+`.textContent`); !strings.HasPrefix(got, "⚠ lost: ") || len(got) < 30 {
		t.Errorf("of a lost one it says %q", got)
	}
	p.picture("lost")
	p.run(do(own("carry this") + `.querySelector("button").click()`))
	p.until(own("carry this") + `?.textContent.startsWith("✓ sent")`)
	rows, err := box.Read(t.Context())
	if err != nil || len(rows) != 2 {
		t.Errorf("there are %d messages, %v", len(rows), err)
	}

	// Whether a message that was sent another way was taken or overwritten is not
	// known.
	w.Send(sim.Name(), "user", "worker", "sent from a terminal")
	p.until(own("sent from a terminal") + `?.textContent === "✓ sent"`)
	if _, err := teamstest.Take(t.Context(), box, func(r inbox.Row) bool { return r.Text == "sent from a terminal" }); err != nil {
		t.Fatal(err)
	}
	p.until(own("sent from a terminal") + `?.textContent === "✓ sent (not tracked)"`)

	// An agent that keeps taken rows did not remove this one.
	var config struct {
		Session string `json:"leadSessionId"`
	}
	data, err := os.ReadFile(filepath.Join(sim.Dir(), "config.json"))
	if err == nil {
		err = json.Unmarshal(data, &config)
	}
	sessions := filepath.Join(claude, "sessions")
	err = errors.Join(err, os.MkdirAll(sessions, 0o700), os.WriteFile(filepath.Join(sessions, "1.json"),
		fmt.Appendf(nil, `{"pid":1,"sessionId":%q,"version":"2.1.1"}`, config.Session), 0o600))
	must(t, err)
	if _, err := teamstest.Take(t.Context(), box, teamstest.All); err != nil {
		t.Fatal(err)
	}
	p.write("who knows")
	p.until(own("who knows") + `?.textContent.startsWith("✓ sent")`)
	if _, err := teamstest.Take(t.Context(), box, teamstest.All); err != nil {
		t.Fatal(err)
	}
	p.until(own("who knows") + `?.dataset.state === "unknown"`)
	if got := value[string](p, own("who knows")+`.textContent`); !strings.HasPrefix(got, "⚠ unknown: ") || len(got) < 30 {
		t.Errorf("of one that nothing is known of it says %q", got)
	}
}

// Texts of others stay text, wherever they are shown.
func testTextIsText(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("worker")
	const attack = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script><a href="javascript:pwned=1">x</a>`
	put := func(m inbox.Message) {
		t.Helper()
		if _, err := w.Inbox(sim.Name(), "worker").Append(t.Context(), m, inbox.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	result, err := json.Marshal(map[string]string{"type": "idle_notification", "from": "worker", "idleReason": "available", "result": attack + " result"})
	must(t, err)
	put(inbox.Message{From: "<b>eve</b>\u202egnp.exe", Summary: attack, Text: attack + " text \u202etxet\u2066 \x1b[31mred\x07 \u200bend"})
	worker, err := simagent.New(simagent.Options{Dir: sim.Dir(), Name: "worker"})
	must(t, err)
	if _, err := worker.Send(t.Context(), simagent.Message{To: "worker", Text: string(result)}); err != nil {
		t.Fatal(err)
	}
	put(inbox.Message{From: "worker", Text: `{"type":"<b>new_kind</b>","x":"<img src=x onerror=pwned=1>"}`})
	put(inbox.Message{From: "worker", Text: "שלום עולם, 👩‍👩‍👧 and é stay as they are"})
	p.until(shown("stay as they are"))
	p.until(`document.querySelector("#announcements").textContent.includes("new kind")`)
	look := func(where string) {
		t.Helper()
		if n := value[int](p, `document.querySelectorAll("main img:not(.welcome > img), main script, main b b, nav b, #announcements img, [href^=javascript]").length`); n != 0 {
			t.Errorf("%s: %d elements came out of texts", where, n)
		}
		if value[bool](p, `window.pwned !== undefined`) {
			t.Errorf("%s: a text was run", where)
		}
		if bare := value[bool](p, `/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069]/.test(document.documentElement.textContent + document.title)`); bare {
			t.Errorf("%s: a control character is shown as it is", where)
		}
	}
	look("the conversation")
	for _, want := range []string{`onerror="window.pwned=1"`, `\u202etxet\u2066`, `\e[31mred\x07`, `\u200bend`, `<b>eve</b>\u202egnp.exe`, "👩‍👩‍👧 and é stay"} {
		if !value[bool](p, `document.querySelector("main").textContent.includes(`+quote(want)+`)`) {
			t.Errorf("%q is not shown", want)
		}
	}
	p.picture("hostile")
	p.run(chromedp.SendKeys(chromedp.CSS("#words"), "pwned"))
	p.until(`document.querySelectorAll(".hit").length > 0`)
	look("what was found")
	p.run(do(`location.hash = "#/team/" + encodeURIComponent("<img src=x onerror=pwned=1>") + "/" + encodeURIComponent("<img src=x onerror=pwned=1>")`))
	p.expect("404")
	p.until(`document.querySelector("main h1")?.textContent.includes("No team <img")`)
	look("an address")
	for _, hash := range []string{"#/nothing", "#/team", "#/team/a/b/c", "#/team/%"} {
		p.run(do(`location.hash = ` + quote(hash)))
		p.until(`location.hash === %s && document.querySelector("main h1")?.textContent === "There is nothing here"`, hash)
		p.run(do(`location.hash = "#/"`))
		p.until(`document.querySelector("main h1")?.textContent !== "There is nothing here"`)
	}
}

// Markdown is rendered, live and after a reload. Wide elements scroll inside the message, and
// code can be copied.
func testMarkdown(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("worker")
	code := "func main() {\n\tfmt.Println(1 < 2) // " + strings.Repeat("a long line ", 20) + "\n}\n"
	put := func(from, text string) {
		t.Helper()
		if _, err := w.Inbox(sim.Name(), "worker").Append(t.Context(), inbox.Message{From: from, Text: text}, inbox.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	put("user", "Please fix `parser.go`:\n1. tables\n2. **lists**")
	put("worker", "# Report\nThe **parser** is *fixed*, ~~mostly~~ fully. See [the run](https://ci.example/runs/7), [main.go](cmd/main.go) and https://ci.example.\n\n"+
		"- [x] tables\n- [ ] lists\n  - nested in `item.go`\n\n```go\n"+code+"```\n\n> A quote\n> of two lines\n\n"+
		"| package | before | after | what was done about it, in a cell with a long text | "+strings.Repeat("column | ", 8)+"\n|"+strings.Repeat("---|", 12)+"\n| parser | 12 ms | 3 ms | less copying |\n| printer | 7 ms | 7 ms | nothing |\n\n---\n\n![shot](https://ci.example/a.png)")
	put("worker", "<img src=x onerror=\"window.pwned=1\"> [a](javascript:pwned=1)")
	put("worker", strings.Repeat("**one** line\n", 200))
	look := func(where string) {
		t.Helper()
		p.until(`document.querySelectorAll(".bubble").length === 4 && document.querySelector(".rich table") !== null`)
		for element, want := range map[string]int{
			".rich h4": 1, ".rich em": 1, ".rich del": 1, ".rich li": 5, ".rich input[type=checkbox]:disabled": 2, ".rich input:checked": 1, ".rich .code pre": 1, ".rich th": 12,
			".rich blockquote": 1, ".rich hr": 1, ".rich a": 3, `.rich a[rel="noopener noreferrer nofollow"][target=_blank]`: 3, ".rich ol": 1, ".rich .copy": 1, ".cut": 2, "main :is(img, script)": 0,
		} {
			if got := value[int](p, `document.querySelectorAll(`+quote(element)+`).length`); got != want {
				t.Errorf("%s: %d of %s, want %d", where, got, element, want)
			}
		}
		for _, want := range []string{"the run (ci.example/…)", "main.go (cmd/main.go)", "shot (image ci.example/…)", `<img src=x onerror="window.pwned=1"> a (javascript:pwned=1)`} {
			if !value[bool](p, `document.querySelector("main").textContent.includes(`+quote(want)+`)`) {
				t.Errorf("%s: %q is not shown", where, want)
			}
		}
		if value[bool](p, `window.pwned !== undefined`) {
			t.Errorf("%s: a text was run", where)
		}
	}
	look("live")
	p.run(do(`location.hash = "#/"`))
	p.until(`document.querySelector("#talk-title") === null`)
	p.choose("worker")
	look("read again")
	p.run(do(`navigator.clipboard.writeText = async (text) => { window.copied = text; }; document.querySelector(".copy").click()`))
	p.until(`window.copied === %s && document.querySelector(".copy").textContent === "Copied"`, code)
	for _, width := range []int64{1440, 390} {
		p.size(width, 900)
		for _, wide := range []string{".rich pre", ".rich .table"} {
			if !value[bool](p, `(e => e.scrollWidth > e.clientWidth && e.tabIndex === 0)(document.querySelector(`+quote(wide)+`))`) {
				t.Errorf("%d wide: %s does not scroll", width, wide)
			}
		}
		if value[bool](p, `[document.documentElement, document.querySelector(".scroll"), ...document.querySelectorAll(".bubble")].some(e => e.scrollWidth > e.clientWidth)`) {
			t.Errorf("%d wide: more than the code and the table scrolls", width)
		}
		p.run(do(`document.querySelector(".scroll").scrollTop = 0`))
		p.picture(fmt.Sprintf("markdown-%d", width))
		p.run(do(`document.querySelector(".rich blockquote").scrollIntoView()`))
		if at := value[int](p, `document.documentElement.scrollTop + document.body.scrollTop`); at != 0 {
			t.Errorf("%d wide: the head of the page is scrolled away by %d px", width, at)
		}
		p.picture(fmt.Sprintf("markdown-table-%d", width))
	}

	// A long message can be shown in full, and cut again.
	more := `[...document.querySelectorAll(".bubble")].at(-1).querySelector(".more")`
	p.until(more + `.textContent === "Show more"`)
	high := `[...document.querySelectorAll(".text")].at(-1).clientHeight`
	cut := value[int](p, high)
	p.run(do(more + `.click()`))
	p.until(more+`.textContent === "Show less" && document.querySelectorAll(".cut").length === 1 && `+high+` > 5 * %d`, cut)
	p.run(do(more + `.click()`))
	p.until(more+`.textContent === "Show more" && document.querySelectorAll(".cut").length === 2 && `+high+` === %d`, cut)
	if !value[bool](p, `[...document.querySelectorAll(".clamped:not(.cut)")].every(e => e.nextElementSibling.hidden)`) {
		t.Error("a message that is not cut has a button to show more")
	}
}

// A conversation of a thousand messages is loaded in parts, and the visible ones
// stay where they are when older ones come.
func testManyMessages(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	const n = 1000
	rows := make([]map[string]any, n)
	start := time.Now().Add(-48 * time.Hour)
	for i := range rows {
		rows[i] = map[string]any{
			"from": []string{"team-lead", "reviewer"}[i/7%2], "text": fmt.Sprintf("message %d of many\n%s", i, strings.Repeat("words ", i%40)),
			"timestamp": start.Add(time.Duration(i) * time.Minute).UTC().Format("2006-01-02T15:04:05.000Z"), "read": false, "msg_id": fmt.Sprintf("m%d", i),
		}
	}
	data, err := json.Marshal(rows)
	must(t, err)
	must(t, os.WriteFile(sim.Agent("worker").Inbox(), data, 0o600))
	w := newWorld(t, claude)
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("worker")
	p.until(`document.querySelectorAll(".message").length === 50`)
	p.until(`(() => { const s = document.querySelector(".scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 2; })()`)
	began := time.Now()
	for had := 50; had < n; had += 100 {
		got := min(had+100, n)
		top := `[...document.querySelectorAll(".bubble")].at(-` + fmt.Sprint(had) + `).getBoundingClientRect().top`
		p.run(do(`document.querySelector(".scroll").scrollTop = 0`))
		before := value[float64](p, top)
		if had == 50 { // while the older ones are loaded, all rows are rendered again
			p.run(do(`{
				const fetch = window.fetch;
				window.fetch = (path, ...rest) => {
					if (!String(path).includes("before=")) return fetch(path, ...rest);
					window.fetch = fetch;
					return new Promise(arrive => { window.arrive = arrive; }).then(() => fetch(path, ...rest));
				};
			}`))
			p.run(do(`document.querySelector(".column > .quiet").click()`))
			p.until(`window.arrive !== undefined`)
			p.run(do(`document.querySelector(".bubble").id = "earlier"`))
			w.join(sim.Name())
			p.until(`document.getElementById("earlier") === null`)
			p.run(do(`window.arrive()`))
		} else {
			p.run(do(`document.querySelector(".column > .quiet").click()`))
		}
		p.until(`document.querySelectorAll(".message").length === %d`, got)
		if after := value[float64](p, top); after < before-1 || after > before+1 {
			t.Fatalf("what was read moved from %.0f to %.0f", before, after)
		}
	}
	t.Logf("950 older messages in 10 parts: %d ms", time.Since(began).Milliseconds())
	if texts := value[string](p, `[...document.querySelectorAll(".text")].map(e => e.textContent.match(/\d+/)[0]).join()`); texts != numbers(n) {
		t.Errorf("not in order: %s", texts)
	}
	if !value[bool](p, `document.querySelector(".column > .quiet").hidden`) {
		t.Error("there seem to be older ones")
	}
	// The time to show and lay out one more, with all of them there.
	p.run(do(`window.took = new Promise(done => new MutationObserver((_, o) => {
		o.disconnect();
		const start = performance.now();
		document.querySelector(".scroll").scrollHeight;
		requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
	}).observe(document.querySelector(".messages"), {childList: true}))`))
	p.run(do(`document.querySelector(".scroll").scrollTop = 0`))
	w.Send(sim.Name(), "team-lead", "worker", "one more")
	p.until(shown("one more"))
	p.until(`document.querySelector(".jump").innerText === "1 new message"`)
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	took, err := chromedp.Run(ctx, chromedp.Evaluate[float64](`window.took`, chromedp.EvalAwaitPromise))
	must(t, err)
	t.Logf("one more beside 1000: laid out and painted after %.1f ms", took)
	p.picture("many")
	p.run(chromedp.Click(chromedp.CSS(".jump")))
	p.until(`document.querySelector(".jump").hidden && (() => { const s = document.querySelector(".scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 2; })()`)

	// A result far back is shown with the messages around it, and from there more can
	// be loaded up to the end.
	p.run(do(`location.hash = location.hash + "?at=" + document.querySelectorAll(".bubble")[449].dataset.seq`))
	p.until(`document.querySelector(".found-here")?.textContent.includes("message 449 ") && document.querySelectorAll(".message").length === 200`)
	p.run(do(`document.querySelector(".messages + .quiet").click()`))
	p.until(`document.querySelectorAll(".message").length === 300`)
	p.run(chromedp.Click(chromedp.CSS(".jump")))
	p.until(shown("one more"))
}

func numbers(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	return strings.Join(list, ",")
}

// A message to all goes to each once, and shows its state for each.
func testEveryone(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker"}, simagent.Member{Name: "reviewer", Absent: true})
	w := newWorld(t, claude)
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("Everyone")
	p.write("Lunch is ready.")
	p.until(`[...document.querySelectorAll(".mine .bubble")].length === 1 &&
		[...document.querySelectorAll(".mine .fate")].map(e => e.textContent).sort().join() === "✓ reviewer sent,✓✓ worker received"`)
	p.run(do(`document.querySelector("#lead").click()`))
	p.write("For all of you.")
	p.until(`[...document.querySelectorAll(".mine .bubble")].at(-1).querySelectorAll(".fate").length === 3 && document.querySelectorAll(".outbox li").length === 0`)
	p.picture("everyone")
	if taken, err := sim.Agent("worker").Wait(t.Context(), 2); err != nil || len(taken) != 2 {
		t.Errorf("the worker took %d, %v", len(taken), err)
	}
}

// A reader to whom a team's agents cannot write joins the team by a press.
func testJoin(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("worker")
	p.until(`document.querySelector(".foot .hint button")?.textContent === "Let them"`)
	p.run(do(`document.querySelector(".foot .hint button").click()`))
	p.until(`document.querySelector(".foot .hint").hidden`)
	w.Send(sim.Name(), "worker", "operator", "Now I can.")
	p.until(shown("Now I can."))
}

// Messages to the reader count as unread until they are seen.
func testUnread(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true}, simagent.Member{Name: "reviewer", Absent: true})
	w := newWorld(t, claude)
	w.join(sim.Name())
	w.Send(sim.Name(), "worker", "operator", "for you, before the page was opened")
	p := open(t, browser, w, w.address())
	p.live()
	badge := `[...document.querySelectorAll("a.member")].find(a => a.textContent.includes("worker")).querySelector(".badge")?.firstChild.textContent`
	p.until(badge + ` === "1" && document.title === "(1) teambridge"`)
	p.choose("reviewer")
	w.Send(sim.Name(), "worker", "operator", "for you, too")
	p.until(badge + ` === "2" && document.title === "(1) reviewer · teambridge"`)
	p.picture("unread")
	p.choose("worker")
	p.until(badge + ` === undefined && document.title === "worker · teambridge"`)
	box := w.Inbox(sim.Name(), "operator")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := standin.WaitFile(ctx, box.Path(), func(data []byte) bool {
		return strings.Count(string(data), `"read":true`)+strings.Count(string(data), `"read": true`) == 2
	}); err != nil {
		t.Error(err)
	}
}

// A draft is still there after a reload of the page, in its conversation
// alone.
func testDrafts(t *testing.T, browser context.Context) {
	claude, _ := simulate(t, simagent.Member{Name: "worker", Absent: true}, simagent.Member{Name: "reviewer", Absent: true})
	w := newWorld(t, claude)
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("worker")
	p.run(chromedp.SendKeys(chromedp.CSS("#text"), "not yet\nsent"))
	p.run(chromedp.Reload())
	p.live()
	p.until(`document.querySelector("#text")?.value === "not yet\nsent" && document.querySelector("#talk-title").firstChild.textContent === "worker"`)
	p.choose("reviewer")
	p.until(`document.querySelector("#text").value === ""`)
	p.choose("worker")
	p.until(`document.querySelector("#text").value === "not yet\nsent"`)
	p.run(chromedp.Click(chromedp.CSS(".compose .send")))
	p.until(own("not yet") + `?.textContent.startsWith("✓ sent")`)
	p.run(chromedp.Reload())
	p.live()
	p.until(shown("not yet") + ` && document.querySelector("#text").value === ""`)
}

// contrasts lists texts whose contrast to their background is under 4.5
// (https://www.w3.org/TR/WCAG22/#contrast-minimum).
const contrasts = `(() => {
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const light = ([r, g, b]) => { const f = (v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
	const low = [];
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility()) continue;
		const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
		const ratio = (a + .05) / (b + .05);
		if (ratio < 4.5) low.push(e.tagName + "." + e.className + " " + ratio.toFixed(2) + ": " + e.textContent.slice(0, 30));
	}
	return low;
})()`

// Without a sign-in, the page says how to sign in, and shows nothing else.
func testSignedOut(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	used := w.address()
	first := open(t, browser, w, used)
	first.live()
	p := open(t, browser, w, used)
	p.expect("401")
	p.until(`document.querySelector("main h1")?.textContent === "This link has expired" && document.querySelector("main code").textContent === "teambridge ui"`)
	p.picture("signed-out")
	if text := p.text(); strings.Contains(text, sim.Name()) {
		t.Errorf("it shows: %s", text)
	}
	p.run(chromedp.Navigate("http://" + w.addr + "/"))
	p.until(`document.querySelector("main h1")?.textContent === "Sign in"`)
	p.run(chromedp.Navigate(w.address()))
	p.live()

	// The removal of the token also signs out the open page.
	w.end()
	must(t, os.Remove(api.TokenPath(w.State)))
	p.expect("ERR_")
	first.expect("401")
	first.expect("ERR_")
	w.start()
	for _, p := range []*tab{p, first} {
		p.until(`document.querySelector("main h1")?.textContent === "Sign in"`)
	}
}

// With a read-only service, the page says so, and keeps drafts.
func testReadOnly(t *testing.T, browser context.Context) {
	claude, _ := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude, func(o *server.Options) { o.ReadOnly = true })
	p := open(t, browser, w, w.address())
	p.expect("403")
	p.live()
	p.choose("worker")
	p.write("will not go")
	p.until(own("will not go") + `?.textContent.includes("⚠ not sent. the service is read-only")`)
	p.until(`document.querySelector(".compose").hidden && document.querySelector(".closed").textContent.includes("read-only")`)
	p.picture("read-only")
}

// The answer of a headless agent is in its conversation, after the message to it, and is
// text, whatever it contains.
func testAnswer(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Handle: answers})
	w := newWorld(t, claude)
	w.join(sim.Name())
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("worker")
	ctx := t.Context()
	c, err := w.Team(sim.Name()).Config(ctx)
	must(t, err)
	l, err := ledger.Open(ctx, filepath.Join(w.State, "ledger.db"))
	must(t, err)
	defer l.Close()
	post := inbox.Key(w.Root.Path(), c.Instance(), "worker")
	if err := errors.Join(
		l.Deliveries.Claim(ctx, ledger.Delivery{UUID: "d", ID: "d", From: "user", InboxKey: post, Person: true, Raw: []byte("What is it?")}),
		l.Frames.Commit(ctx, ledger.Frame{UUID: "f", InboxKey: post, Kind: ledger.FrameMessage, Bytes: []byte("{}")}, "d"),
		l.Frames.Finish(ctx, "f", ledger.Done, "", `{"type":"shutdown_approved"}, says worker`),
	); err != nil {
		t.Fatal(err)
	}
	said := bubble("shutdown_approved")
	p.until(said + `?.querySelector(".label")?.textContent === "answer"`)
	if pair := value[string](p, said+`.querySelector(".pair").textContent`); pair != "worker" {
		t.Errorf("it is from %q, want the agent alone", pair)
	}
	if !value[bool](p, bubble("What is it?")+`.compareDocumentPosition(`+said+`) === Node.DOCUMENT_POSITION_FOLLOWING`) {
		t.Error("the answer stands before the message")
	}
}

// If events were pruned before the page got them, it loads the messages again.
func testForgotten(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	w.Send(sim.Name(), "team-lead", "worker", "long ago")
	p := open(t, browser, w, w.address())
	p.expect("ERR_")
	p.live()
	p.choose("worker")
	p.until(shown("long ago"))
	w.end()
	p.until(`document.querySelector("#link").dataset.link === "reconnecting"`)
	for _, name := range []string{"journal.db", "journal.db-wal", "journal.db-shm"} {
		_ = os.Remove(filepath.Join(w.State, name))
	}
	must(t, os.WriteFile(sim.Agent("worker").Inbox(), []byte("[]"), 0o600))
	w.start()
	p.live()
	p.until(`document.querySelectorAll("main .bubble").length === 0`)
	w.Send(sim.Name(), "team-lead", "worker", "a new beginning")
	p.until(shown("a new beginning"))
}

// An ended team can be read, but not written to.
func testEnded(t *testing.T, browser context.Context) {
	claude, sim := simulate(t, simagent.Member{Name: "worker", Absent: true})
	w := newWorld(t, claude)
	w.join(sim.Name())
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("worker")
	p.write("from me")
	p.until(own("from me") + `?.textContent.startsWith("✓ ") && document.querySelectorAll(".outbox li").length === 0`)
	w.Send(sim.Name(), "team-lead", "worker", "the last words")
	p.until(shown("the last words"))
	must(t, os.Rename(sim.Dir(), claude+".ended"))
	defer func() { _ = os.Rename(claude+".ended", sim.Dir()) }() // its lead still runs
	p.until(`document.querySelector(".compose").hidden && document.querySelector(".closed").textContent.includes("has ended")`)

	// The reader's messages are still shown as theirs, also after a reload. Whether the agent took
	// them is not known, and they cannot be sent again.
	fate := own("from me")
	mine := `document.querySelectorAll(".mine .bubble").length === 1 && document.querySelector(".mine b").textContent === "you" && ` +
		fate + `.textContent.includes("its team has ended") && ` + fate + `.querySelector("button") === null`
	p.until(mine)
	p.run(chromedp.Reload())
	p.until(shown("from me") + " && " + mine)
	p.picture("ended")
	p.run(chromedp.SendKeys(chromedp.CSS("#words"), "last words"))
	p.until(`document.querySelectorAll(".hit").length === 1`)
	p.run(do(`document.querySelector(".hit").click()`))
	p.until(shown("the last words") + ` && document.querySelector(".found-here") !== null && document.querySelector(".compose").hidden`)
}

// The same with a real agent: it takes a message, answers it, and ends.
func testRealAgent(t *testing.T, browser context.Context) {
	version := standin.Newest(t)
	standin.Require(t, version)
	standin.RequireTmux(t)
	// A model that follows its messages, and ends on request.
	request := regexp.MustCompile(`shutdown-[0-9]+@worker`)
	home := standin.NewHome(t, standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
		if id := request.FindString(r.Text()); r.Agent == standin.Worker && !r.Side && len(r.Results) == 0 && id != "" {
			r.Texts = []string{standin.CallLine("SendMessage", map[string]any{
				"to": "team-lead", "message": map[string]any{"type": "shutdown_response", "request_id": id, "approve": true},
			})}
		}
		return standin.Script(ctx, r)
	}))
	team := standin.StartTeam(t, version, home)
	w := newWorld(t, team.Root)
	w.join(team.Name)
	p := open(t, browser, w, w.address())
	p.live()
	p.choose(team.Member)
	call := standin.CallLine("SendMessage", map[string]string{"to": "operator", "message": "here it is [r-1]", "summary": "reviewed"})
	p.write("please review [m-1]\n" + call)
	p.until(own("[m-1]") + `?.textContent === "✓✓ received"`)
	p.until(`[...document.querySelectorAll(".tome .bubble")].some(b => b.textContent.includes("here it is [r-1]"))`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, team.API.WaitCount(ctx, team.Member, "[m-1]", 1))
	p.choose("team-lead")
	p.write(standin.CallLine("SendMessage", map[string]any{"to": team.Member, "message": map[string]string{"type": "shutdown_request", "reason": "bye"}}))
	p.until(`[...document.querySelectorAll("a.member")].find(a => a.textContent.includes(%s))?.dataset.word === "ended"`, team.Member)
	p.choose(team.Member)
	p.picture("real")
	if n := team.API.Count(team.Member, "[m-1]"); n != 1 {
		t.Errorf("the message arrived %d times", n)
	}
}
