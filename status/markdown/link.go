package markdown

import (
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// The forms of hosts and mail addresses that are linked. Characters beyond ASCII can look like
// others; user names and backslashes let a program and a reader see different hosts.
var (
	hostForm = lazily(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)
	mailForm = lazily(`^[A-Za-z0-9._+-]+@[A-Za-z0-9._-]+$`)
)

// lazily compiles an expression when it is used first. Commands that use none of this package
// start with it.
func lazily(expression string) func() *regexp.Regexp {
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

// linking is a link that is being written.
type linking struct {
	to, href string
	host     string // what is shown after the text
	start    int    // where the text is in the output
}

// beginLink begins a link to an address. If that is not linked, or inside another link, only
// the text is written.
func (w *writer) beginLink(to string) {
	href, host, ok := address(to)
	if !ok {
		host = to // agents also link files
	}
	if slices.ContainsFunc(w.links, func(l linking) bool { return l.href != "" }) {
		href = ""
	}
	if href != "" {
		w.out.WriteString(`<a href="` + href + `" rel="noopener noreferrer nofollow" target="_blank">`)
	}
	w.links = append(w.links, linking{to, href, host, w.out.Len()})
}

// endLink ends the link that was begun last. With aside, its host is written after a text
// that is not its address; without a text, the address is one.
func (w *writer) endLink(aside bool) {
	l := w.links[len(w.links)-1]
	w.links = w.links[:len(w.links)-1]
	if w.out.Len() == l.start {
		w.text(l.to)
	}
	var shown writer
	shown.text(l.to)
	same := bytes.Equal(w.out.Bytes()[l.start:], shown.out.Bytes())
	if l.href != "" {
		w.out.WriteString("</a>")
	}
	if aside && !same {
		w.out.WriteString(` <span class="host">(`)
		w.text(l.host)
		w.out.WriteString(")</span>")
	}
}
