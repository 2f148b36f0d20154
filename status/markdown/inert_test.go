package markdown

import (
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"teambridge/status/plain"
)

// allowed are the elements and the form of their attributes, as the package comment has them.
var allowed = map[string]map[string]*regexp.Regexp{
	"p": nil, "br": nil, "hr": nil, "h4": nil, "h5": nil, "h6": nil, "blockquote": nil, "ul": nil, "li": nil,
	"em": nil, "strong": nil, "del": nil, "code": nil, "pre": nil,
	"table": nil, "thead": nil, "tbody": nil, "tr": nil, "th": nil, "td": nil,
	"ol":   {"start": regexp.MustCompile(`^[0-9]{1,9}$`)},
	"div":  {"class": regexp.MustCompile(`^(code|table)$`)},
	"span": {"class": regexp.MustCompile(`^(lang|host|esc)$`)},
	"a": {
		"href": regexp.MustCompile(`^(https?://|mailto:)[!-~]+$`), "rel": regexp.MustCompile(`^noopener noreferrer nofollow$`),
		"target": regexp.MustCompile(`^_blank$`),
	},
	"input": {
		"type": regexp.MustCompile(`^checkbox$`), "disabled": regexp.MustCompile(`^$`), "checked": regexp.MustCompile(`^$`),
		"aria-label": regexp.MustCompile(`^(done|to do)$`),
	},
}

// plainHost is the form of a host, or of a mail address, that looks like what it is.
var plainHost = regexp.MustCompile(`^[][A-Za-z0-9@:+._-]+$`)

// faults returns what is in a rendered text that is not allowed.
func faults(rendered string) (list []string) {
	fault := func(parts ...string) { list = append(list, strings.Join(parts, " ")) }
	var open, written []string
	z := html.NewTokenizer(strings.NewReader(rendered))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			if z.Err() != io.EOF {
				fault(z.Err().Error())
			}
			break
		}
		t := z.Token()
		switch kind {
		case html.TextToken:
			if strings.ContainsFunc(t.Data, func(r rune) bool { return r != '\n' && r != '\t' && plain.Unsafe(r) }) {
				fault("unsafe characters:", t.Data)
			}
		case html.StartTagToken:
			written = append(written, t.Data)
			list = append(list, tagFaults(t, open)...)
			if !slices.Contains([]string{"br", "hr", "input"}, t.Data) {
				open = append(open, t.Data)
			}
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != t.Data {
				fault("</"+t.Data+"> in", strings.Join(open, " "))
			} else {
				open = open[:len(open)-1]
			}
		default:
			fault(kind.String(), t.Data)
		}
	}
	if len(open) > 0 {
		fault("not closed:", strings.Join(open, " "))
	}
	// A browser makes the same elements of it, in the same order.
	nodes, err := html.ParseFragment(strings.NewReader(rendered), &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil {
		fault(err.Error())
	}
	var parsed []string
	for _, n := range nodes {
		if n.Type == html.ElementNode {
			parsed = append(parsed, n.Data)
		}
		for d := range n.Descendants() {
			if d.Type == html.ElementNode {
				parsed = append(parsed, d.Data)
			}
		}
	}
	if !slices.Equal(written, parsed) {
		fault("parsed as other elements:", strings.Join(parsed, " "))
	}
	return list
}

// tagFaults returns what is wrong with the start of an element inside open ones.
func tagFaults(t html.Token, open []string) (list []string) {
	attributes, known := allowed[t.Data]
	if !known {
		return []string{"element " + t.String()}
	}
	if t.Data == "a" && (len(t.Attr) != 3 || slices.Contains(open, "a")) {
		list = append(list, "link "+t.String())
	}
	for _, a := range t.Attr {
		if form := attributes[a.Key]; a.Namespace != "" || form == nil || !form.MatchString(a.Val) {
			list = append(list, "attribute "+a.Key+"="+a.Val)
		}
		if a.Key != "href" {
			continue
		}
		if u, err := url.Parse(a.Val); err != nil || u.User != nil || !plainHost.MatchString(u.Host+u.Opaque) {
			list = append(list, "address "+a.Val)
		}
	}
	if len(open) > 5*maxDepth {
		list = append(list, "deep: "+strings.Join(open, " "))
	}
	return list
}

// hostile are texts that want to be more than text.
var hostile = []string{
	"<script>alert(1)</script>", "a <script>alert(1)</script> b", "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
	"<scr<script>ipt>alert(1)</scr</script>ipt>", "<script\n>alert(1)\n</script\n>", "<svg/onload=alert(1)>", "<img src=x onerror=alert(1)>",
	"<a href=\"javascript:alert(1)\">x</a>", "<div onclick='alert(1)'>\n\n# x\n\n</div>", "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
	"<style>*{display:none}</style>", "<base href=//evil.example>", "<meta http-equiv=refresh content=0;url=//evil.example>", "<form action=//evil.example><input name=a>",
	"<!-- a --> b --> <!--", "<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>", "<![CDATA[<script>alert(1)</script>]]>", "<?php echo 1 ?>", "<math><mtext></p><style><img src onerror=alert(1)>",
	"<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">", "<template><script>alert(1)</script></template>", "</div></article><script>alert(1)</script>",
	"`<script>`", "```\n</code></pre><script>alert(1)</script>\n```", "```<script>alert(1)</script>\na\n```", "```\" onmouseover=\"alert(1)\na\n```", "    </pre><script>alert(1)</script>", "~~~ a\"><script>\nb",
	"[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](java\tscript:alert(1))", "[x](<java\tscript:alert(1)>)", "[x](&#106;avascript:alert(1))", "[x](&#x6A;avascript&colon;alert&lpar;1&rpar;)",
	"[x](java&Tab;script:alert(1))", "[x](java&NewLine;script:alert(1))", "[x](&#1;javascript:alert(1))", "[x](\\javascript:alert(1))", "[x](javascript&#58;alert(1))", "[x](%6aavascript:alert(1))",
	"[x](javascript://good.example/%0aalert(1))", "[x](vbscript:msgbox(1))", "[x](data:text/html,<script>alert(1)</script>)", "[x](data:text/html;base64,PHNjcmlwdD4=)", "[x](file:///etc/passwd)", "[x](blob:https://a.example/1)",
	"[x](//evil.example)", "[x](/v1/teams)", "[x](?a=b)", "[x](#/team/a)", "[x](\\\\evil.example\\a)", "[x](http:evil.example)", "[x](http:/evil.example)", "[x](http:///evil.example)", "[x](https:\\\\evil.example)",
	"[x](https://good.example@evil.example/)", "[x](https://good.example\\@evil.example/)", "[x](https://good.example%40evil.example/)", "[x](https://g\u043e\u043ed.example/)", "[x](https://a.example\u2044b.evil.example/)", "[x](https://a.example/\u202egpj.exe)",
	"[x](https://a.example/?a=\"onmouseover=alert(1))", "[x](https://a.example/'onmouseover='alert(1))", "[x](<https://a.example/><script>alert(1)</script>)", "[x](https://a.example/&quot;onmouseover=alert(1))", "[x](https://a.example \"t\\\" onclick=alert(1)\")",
	"[https://good.example](https://evil.example)", "[x](mailto:a@b.example?body=x)", "[x](mailto:a@b.example%0d%0abcc:c)", "[x](mailto://a)", "[x](ws://a.example)", "[x](ftp://a.example)", "[x]( https://a.example )", "[x](https://)", "[x](https://:80/)",
	"![x](https://evil.example/pixel.gif)", "![x](javascript:alert(1))", "![\"><script>alert(1)</script>](https://a.example)", "![](https://a.example/i.png)", "[![a](https://a.example/b.svg)](https://c.example)", "![[a](https://b.example)](https://a.example)",
	"[a [b](https://b.example) c](https://a.example)", "[<https://b.example>](https://a.example)", "[www.b.example](https://a.example)", "[](https://a.example)", "[]()", "![]()",
	"<javascript:alert(1)>", "<data:text/html,x>", "<https://a.example/\"onclick=alert(1)>", "<a@b.example>", "<mailto:a@b.example>", "<MAILTO:a@b.example>", "<https://a@b.example>", "https://a.example/\"onclick=alert(1)", "www.a.example", "http://a.example/<script>", "ftp://a.example", "javascript:alert(1)", "a@b.example",
	"[a]\n\n[a]: javascript:alert(1)", "[a][b]\n\n[b]: data:text/html,x 'onclick=alert(1)'", "[a]: https://a.example\n[a]", "[^1]\n\n[^1]: x",
	"&lt;script&gt;alert(1)&lt;/script&gt;", "&amp;lt;script&amp;gt;", "&#60;script&#62;", "&#x3c;script&#x3e;", "\\<script\\>", "\\&lt;", "&#0;", "&#x110000;", "&#xd800;", "&bogus;", "&;", "&", "&#8238;abc", "&ZeroWidthSpace;", "&copy", "&NotEqualTilde;",
	"# <script>alert(1)</script>", "# a {#id .class onclick=alert(1)}", "## [x](javascript:alert(1)) ##", "a\n===", "a\n---", "<b>\n===", "####### a",
	"| a | b |\n|---|---|\n| <script> | [x](javascript:alert(1)) |", "|a|\n|:-:|\n|\"onclick=alert(1)|", "a|b\n-|-\n`\\|`|c|d\n", "|<table>|\n|-|\n|</td></tr></table><script>|", "| a |\n|---|\n> b", "- | a |\n  |---|\n  | b |",
	"- [ ] <script>", "- [x] a\n- [ ] b", "[x] a", "- [x]", "1. a\n2. b", "7) a", "999999999. a", "9999999999. a", "0. a", "-1. a",
	"*<b>*", "**a*b**", "***a***", "~~a~~", "~a~", "__a__", "*a **b* c**", "> <script>\n> a\n\nb", "> - > - a", "---", "* * *", "a  \nb\\\nc\nd",
	"\x00<script>\x00", "\x1b[31mred", "a\u202eb\u2066c\u200bd\ufeffe\u2028f", "\xff\xfe<script>", "\xed\xa0\x80", "\r\n<script>\r\n", "a\rb", "\u200d\u200c", "\U000e0041tag", "`\u202e`", "```\n\x1b[2J\u202e\n```", "\t<script>", "",
}

// Of whatever text, only what is allowed is written.
func TestHostileTextsAreInert(t *testing.T) {
	t.Parallel()
	texts := slices.Clone(hostile)
	for _, text := range hostile { // and inside of all that holds text
		texts = append(texts, "> "+text, "- a\n\n  "+text, "# "+text, "|"+text+"|\n|-|\n|"+text+"|", "*"+text+"*", "["+text+"](https://a.example)", "!["+text+"](https://a.example)", "[a]("+text+")", "<"+text+">", "```"+text+"\n"+text)
	}
	for _, text := range texts {
		html, ok := HTML(text)
		if !ok {
			t.Errorf("%q is over a limit", text)
		}
		for _, fault := range faults(html) {
			t.Errorf("%q\nis rendered as %s\nwith %s", text, html, fault)
		}
	}
	if testing.Short() {
		return // the large ones take long
	}
	for name, text := range hostileSizes() {
		html, _ := HTML(text)
		if list := faults(html); len(list) > 0 {
			t.Errorf("%s: %.300q", name, list)
		}
	}
}

// The check finds what it is for.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, html := range []string{
		"<script>", "<p onclick=a>b</p>", "<p>a", "</p>", "<p><p>a</p></p>", "<!-- a -->", `<a href="javascript:a" rel="noopener noreferrer nofollow" target="_blank">a</a>`,
		`<a href="https://a.example">a</a>`, `<div class="top"></div>`, `<span style="a"></span>`, `<p id="a"></p>`, "<img>", "<table><p>a</p></table>", "\u202e", `<input type="text">`, "<svg></svg>",
		`<a href="https://a@b" rel="noopener noreferrer nofollow" target="_blank">a</a>`,
	} {
		if len(faults(html)) == 0 {
			t.Errorf("nothing wrong with %s", html)
		}
	}
}

func FuzzHTML(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		html, _ := HTML(text)
		if list := faults(html); len(list) > 0 {
			t.Errorf("%q\nis rendered as %s\nwith %q", text, html, list)
		}
	})
}
