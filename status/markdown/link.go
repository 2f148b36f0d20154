package markdown

import (
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
)

// The forms of hosts and mail addresses that are linked. Characters beyond ASCII can look like
// others; user names and backslashes let a program and a reader see different hosts.
var (
	hostForm = form(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
	mailForm = form(`^[A-Za-z0-9._+-]+@[A-Za-z0-9._-]+$`)
)

// form compiles an expression when it is used first: see [syntax].
func form(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// address returns the form of an address that can be written into an attribute, and what is
// shown of it after a text. ok is false if it is none that is linked.
func address(s string) (href, host string, ok bool) {
	u, err := url.Parse(s)
	if err != nil {
		return "", "", false
	}
	switch u.Scheme {
	case "http", "https":
		host, ok = u.Host, u.User == nil && u.Opaque == "" && hostForm().MatchString(u.Host)
	case "mailto":
		host, ok = u.Opaque, mailForm().MatchString(u.Opaque) && u.RawQuery == "" && u.Fragment == ""
	}
	if !ok {
		return "", "", false
	}
	if strings.TrimPrefix(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		host += "/…"
	}
	var b strings.Builder
	for _, c := range []byte(u.String()) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"'<>\\^`{|}", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else if c == '&' {
			b.WriteString("&amp;")
		} else {
			b.WriteByte(c)
		}
	}
	return b.String(), host, true
}

// aside writes an address, or a part of one, after a text.
func (w *writer) aside(s string) {
	w.out.WriteString(` <span class="host">(`)
	w.text(s)
	w.out.WriteString(")</span>")
}

// anchor writes what content writes, as a link if href is not empty and it is in none.
func (w *writer) anchor(href string, content func()) {
	if href == "" || w.linked {
		content()
		return
	}
	w.linked = true
	w.out.WriteString(`<a href="` + href + `" rel="noopener noreferrer nofollow" target="_blank">`)
	content()
	w.out.WriteString("</a>")
	w.linked = false
}

// link writes a link, and an image as one. An address that is not linked is shown, because
// agents also link files. kind is what it is if it is no mere link.
func (w *writer) link(n ast.Node, kind, to, title string, depth int) {
	href, host, ok := address(to)
	if !ok {
		href, host = "", to
	}
	var same bool // the text as the address
	w.anchor(href, func() {
		start := w.out.Len()
		w.children(n, depth)
		if w.out.Len() == start {
			w.text(to)
		}
		var shown writer
		shown.text(to)
		same = bytes.Equal(w.out.Bytes()[start:], shown.out.Bytes())
	})
	if same {
		host = ""
	}
	if title != "" {
		title = `"` + title + `"`
	}
	about := slices.DeleteFunc([]string{kind, host, title}, func(s string) bool { return s == "" })
	if len(about) > 0 {
		w.aside(strings.Join(about, " "))
	}
}

// autoLink writes an address that stands for itself.
func (w *writer) autoLink(n *ast.AutoLink) {
	label, to := string(n.Label(w.source)), string(n.URL(w.source))
	if n.AutoLinkType == ast.AutoLinkEmail && !strings.HasPrefix(strings.ToLower(to), "mailto:") {
		to = "mailto:" + to
	}
	href, _, _ := address(to)
	w.anchor(href, func() { w.text(label) })
}
