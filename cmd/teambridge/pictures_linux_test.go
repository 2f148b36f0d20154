package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"flag"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams/errtest"
)

var updatePictures = flag.Bool("update-pictures", false, "take the pictures of the README again")

func pictureFile(name string) string { return filepath.Join("..", "..", ".github", name) }

// The picture of the terminal shows the output of the demonstration, with the times of an earlier run.
func TestTerminalPicture(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short: TestDemoKeep runs the same code")
	}
	t.Parallel()
	var out, errs bytes.Buffer
	if status := run([]string{"demo"}, host{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, lookup: os.LookupEnv, cwd: os.Getwd}); status != 0 {
		t.Fatalf("demo ended with %d: %s", status, &errs)
	}
	lines := strings.Split("$ teambridge demo\n"+strings.TrimRight(out.String(), "\n"), "\n")
	file := pictureFile("terminal.svg")
	if *updatePictures {
		errtest.Must(t, os.WriteFile(file, drawTerminal(lines), 0o644))
	}
	data, err := os.ReadFile(file)
	errtest.Must(t, err)
	if shown := drawn(t, data); !slices.Equal(withoutNumbers(shown), withoutNumbers(lines)) {
		t.Errorf("%s shows\n%s\nand the demonstration prints\n%s\nrun .ci/pictures", file, strings.Join(shown, "\n"), strings.Join(lines, "\n"))
	}
}

// withoutNumbers removes the differences between two runs: times, ids, states that depend on the clock, and the order
// of simultaneous events.
func withoutNumbers(lines []string) (kept []string) {
	number := regexp.MustCompile(`[0-9a-f]{8}\b|\d+(\.\d+)?`)
	space := regexp.MustCompile(` +`)
	for _, l := range lines {
		l, _, _ = strings.Cut(space.ReplaceAllString(number.ReplaceAllString(l, "N"), " "), " (") // a state's reason is in parentheses
		kept = append(kept, strings.TrimRight(strings.TrimSuffix(l, " relay idle"), " "))
	}
	return kept
}

// drawTerminal draws lines as SVG, with dim times, and messages and answers in color.
func drawTerminal(lines []string) []byte {
	const width, left, line = 112, 20, 19
	lines = wrapLines(lines, width)
	var b bytes.Buffer
	height := 50 + line*len(lines)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="980" height="%[1]d" viewBox="0 0 980 %[1]d">
<rect width="980" height="%[1]d" rx="8" fill="#1b1f24"/>
<circle cx="22" cy="18" r="6" fill="#ff5f57"/><circle cx="42" cy="18" r="6" fill="#febc2e"/><circle cx="62" cy="18" r="6" fill="#28c840"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#d5dbe3">
`, height)
	at := regexp.MustCompile(`^( *\d+\.\d+ s)(  )(.*)$`)
	for i, l := range lines {
		fmt.Fprintf(&b, `<text x="%d" y="%d">`, left, 52+line*i)
		m := at.FindStringSubmatch(l)
		if m == nil {
			m = []string{"", "", "", l}
		}
		color := ""
		switch text := m[3]; {
		case strings.HasPrefix(text, "$"), strings.HasPrefix(text, "→"):
			color = ` fill="#79c0ff"`
		case strings.HasPrefix(text, "←"), strings.Contains(text, "nothing left behind"):
			color = ` fill="#7ee2a0"`
		}
		fmt.Fprintf(&b, `<tspan fill="#8b95a3">%s</tspan><tspan%s>`, unbroken(m[1]+m[2]), color)
		_ = xml.EscapeText(&b, []byte(unbroken(m[3]))) // a buffer accepts everything
		b.WriteString("</tspan></text>\n")
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}

// unbroken returns a text with spaces that SVG does not join.
func unbroken(text string) string { return strings.ReplaceAll(text, " ", "\u00a0") }

// wrapLines folds lines that are too long. A continuation begins with a tab.
func wrapLines(lines []string, width int) (folded []string) {
	for _, l := range lines {
		for runes := []rune(l); ; {
			if len(runes) <= width {
				folded = append(folded, string(runes))
				break
			}
			cut := width
			for cut > width/2 && runes[cut] != ' ' {
				cut--
			}
			folded = append(folded, string(runes[:cut]))
			runes = append([]rune(continued), runes[cut+1:]...)
		}
	}
	return folded
}

// continued begins a continuation.
const continued = "            ↳ "

// drawn reads the lines of a picture.
func drawn(t *testing.T, data []byte) (lines []string) {
	t.Helper()
	var svg struct {
		Texts []struct {
			Parts []string `xml:"tspan"`
		} `xml:"g>text"`
	}
	errtest.Must(t, xml.Unmarshal(data, &svg))
	for _, text := range svg.Texts {
		l := strings.ReplaceAll(strings.Join(text.Parts, ""), "\u00a0", " ")
		if rest, ok := strings.CutPrefix(l, continued); ok && len(lines) > 0 {
			lines[len(lines)-1] += " " + rest
			continue
		}
		lines = append(lines, l)
	}
	return lines
}

// The picture of the page is taken from demo --keep, and small enough for a README.
func TestPagePicture(t *testing.T) {
	t.Parallel()
	file := pictureFile("page.png")
	if *updatePictures {
		program := standin.RequireChromium(t)
		p, _, end := startPlayground(t)
		shot := photograph(t, program, p.Page)
		end()
		errtest.Must(t, os.WriteFile(file, shot, 0o644))
	}
	data, err := os.ReadFile(file)
	errtest.Must(t, err)
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil || config.Width != 1280 || len(data) > 150<<10 {
		t.Errorf("%s has %d bytes and a width of %d, %v; want at most 150 KiB and 1280", file, len(data), config.Width, err)
	}
}

// photograph opens an address and takes a picture of the final page.
func photograph(t *testing.T, program, address string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	home := t.TempDir()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(filepath.Join(home, "data")),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), chromedp.WSURLReadTimeout(patience))
	ctx, stop := chromedp.NewExecAllocator(ctx, opts...)
	defer stop()
	ctx, end := chromedp.NewContext(ctx)
	defer end()
	ready := `document.querySelector("#link")?.dataset.link === "live" && document.body.textContent.includes("git tag") && !document.body.textContent.includes("unread message")`
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 560), chromedp.Navigate(address),
		chromedp.Poll[chromedp.Void](`document.querySelector("a.member") !== null`, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(0)),
		chromedp.Poll[chromedp.Void](ready, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(0))); err != nil {
		t.Fatal(err)
	}
	shot, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	errtest.Must(t, err)
	return shot.Data
}
