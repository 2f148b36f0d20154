package page_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"teambridge/inbox"
)

// inView is an expression for the messages of which at least half is in view, by a margin.
const inView = `[...document.querySelectorAll(".messages .bubble")].filter(b => {
	const [box, view] = [b, document.querySelector(".scroll")].map(e => e.getBoundingClientRect());
	return Math.min(box.bottom, view.bottom) - Math.max(box.top, view.top) > box.height * .55;
})`

// frames waits until the browser has drawn the page.
var frames = chromedp.Evaluate[chromedp.Void](`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))`, chromedp.EvalAwaitPromise)

// visible makes the page visible, or not.
func (p *tab) visible(state string) {
	p.t.Helper()
	p.run(do(fmt.Sprintf(`Object.defineProperty(document, "visibilityState", {configurable: true, get: () => %q}); document.dispatchEvent(new Event("visibilitychange"))`, state)))
}

// unreadTexts returns the texts of the unread rows of an inbox, in their order.
func (w *world) unreadTexts(team, member string) (texts []string) {
	w.t.Helper()
	data, err := os.ReadFile(w.Path(team, "inboxes", member+".json"))
	var rows []inbox.Row
	if err == nil {
		rows, err = inbox.Parse(data)
	}
	must(w.t, err)
	for _, r := range rows {
		if !r.Read {
			texts = append(texts, r.Text)
		}
	}
	return texts
}

// unreadHere is an expression for the number of unread messages in the list of members.
const unreadHere = `[...document.querySelectorAll(".members .badge")].reduce((n, e) => n + Number(e.firstChild.data), 0)`

// A conversation opens at the first unread message. A message is read once half of it was in view,
// in a visible page.
func testSeen(t *testing.T, browser context.Context) {
	w, team := busy(t)
	w.start()
	t.Cleanup(w.end)
	unread := w.unreadTexts(team, "operator")
	if len(unread) < busyUnread {
		t.Fatalf("%d messages are unread", len(unread))
	}
	p := open(t, browser, w, w.address())
	p.live()
	p.until(unreadHere+` === %d`, len(unread))
	p.size(1280, 420)
	p.visible("hidden")
	p.choose("Everyone")
	// An event that comes meanwhile shows the messages loaded so far.
	p.until(`document.querySelector(".new") !== null && document.querySelector(".scroll[aria-busy]") === null`)
	p.run(frames)
	if n := len(w.unreadTexts(team, "operator")); n != len(unread) || value[int](p, unreadHere) != n {
		t.Errorf("%d of %d messages are unread in a page that nobody sees", n, len(unread))
	}
	where := value[struct {
		Text          string
		Above, Height float64
	}](p, `(() => {
		const line = document.querySelector(".new"), view = document.querySelector(".scroll").getBoundingClientRect();
		return {Text: line.parentElement.querySelector(".text").textContent, Above: line.getBoundingClientRect().top - view.top, Height: view.height};
	})()`)
	if want := "Step 278 "; where.Text[:len(want)] != want || where.Above < 0 || where.Above > where.Height/2 {
		t.Errorf("the first unread message is %.20q, %.0f px below the top of %.0f", where.Text, where.Above, where.Height)
	}
	p.picture("new")

	// Only messages in view are seen.
	p.visible("visible")
	seen := value[int](p, inView+`.filter(b => b.textContent.includes("→ you")).length`)
	if seen == 0 || seen >= len(unread)-2 {
		t.Fatalf("%d of %d unread messages are in view", seen, len(unread))
	}
	left := func(n int) {
		t.Helper()
		p.until(unreadHere+` === %d`, n)
		if got := len(w.unreadTexts(team, "operator")); got < n {
			t.Errorf("%d messages are unread, want %d", got, n)
		}
	}
	left(len(unread) - seen)

	// The button to the end counts the messages below.
	p.until(fmt.Sprintf(`document.querySelector(".jump").textContent === "%d new messages"`, len(unread)-seen))
	p.run(do(`document.querySelector(".scroll").scrollTop += 400`), frames)
	p.until(unreadHere+` !== %d`, len(unread)-seen)

	// The others can be marked as read.
	p.run(do(`document.querySelector(".new button").click()`))
	left(0)
	p.until(`document.querySelector(".jump").textContent === "Jump to latest"`)
	p.run(do(`document.querySelector(".jump").click()`))
	p.until(`document.querySelector(".jump").hidden`)

	// Messages that come while the reader is away are new when they come back, and not before.
	p.visible("hidden")
	for n := range 8 {
		w.Send(team, "backend", "operator", fmt.Sprintf("while you were away: %d", n))
	}
	p.until(shown("away: 7"))
	p.run(frames)
	p.until(`` + unreadHere + ` === 8 && document.querySelectorAll(".new").length === 1 && document.querySelector(".new").parentElement.textContent.includes("away: 0")`)
	if !value[bool](p, inView+`.some(b => b.textContent.includes("away: 0"))`) {
		t.Error("the first message that came is scrolled away")
	}
	p.visible("visible")
	p.until(unreadHere + ` !== 8`)
	p.size(1280, 900)
	left(0)

	// Messages that come while the reader looks need no line.
	p.run(do(`document.querySelector(".scroll").scrollTop = 1e6`), frames)
	w.Send(team, "backend", "operator", "you are here")
	p.until(inView + `.some(b => b.textContent.includes("you are here"))`)
	left(0)
	if !value[bool](p, `document.querySelector(".new").parentElement.textContent.includes("away: 0")`) {
		t.Error("a message that was seen as it came is said to be new")
	}
}

// The place in a conversation is the same after a reload of the page.
func testPlaceIsKept(t *testing.T, browser context.Context) {
	w, _ := busy(t)
	w.start()
	t.Cleanup(w.end)
	p := open(t, browser, w, w.address())
	p.live()
	p.choose("Everyone")
	p.run(do(`document.querySelector(".column > .quiet").click()`))
	p.until(`document.querySelectorAll(".bubble").length > 120`)
	p.run(do(`document.querySelector(".scroll").scrollTop = 1900`), frames)
	const first = `(() => {
		const top = document.querySelector(".scroll").getBoundingClientRect().top;
		const b = [...document.querySelectorAll(".bubble")].find(b => b.getBoundingClientRect().bottom > top + 1);
		return b && {Seq: b.dataset.seq, At: Math.round(b.getBoundingClientRect().top - top)};
	})()`
	type place struct {
		Seq string
		At  int
	}
	before := value[place](p, first)
	p.run(chromedp.Reload())
	p.live()
	p.until(fmt.Sprintf(`(f => f?.Seq === %q && Math.abs(f.At - %d) <= 2)(%s)`, before.Seq, before.At, first))
	p.picture("kept")

	// Also at the end; and a link to a message is followed only once.
	p.run(do(`document.querySelector(".jump").click()`))
	p.until(`document.querySelector(".jump").hidden`)
	p.run(do(`location.hash += "?at=" + ` + fmt.Sprint(before.Seq)))
	p.until(`document.querySelector(".found-here") !== null`)
	p.run(do(`document.querySelector(".jump").click()`))
	p.until(`document.querySelector(".jump").hidden`)
	p.run(chromedp.Reload())
	p.live()
	p.until(`document.querySelectorAll(".bubble").length > 20 && document.querySelector(".jump").hidden && document.querySelector(".found-here") === null`)
}
