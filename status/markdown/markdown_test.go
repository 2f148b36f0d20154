package markdown

import (
	"strings"
	"testing"
)

const link = ` rel="noopener noreferrer nofollow" target="_blank">`

func TestHTML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a *b* **c** ~~d~~ `e`":          "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e</code></p>",
		"a\nb":                           "<p>a<br>b</p>",
		"# a\n## b\n###### c":            "<h4>a</h4><h5>b</h5><h6>c</h6>",
		"- a\n- b\n  1. c":               "<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>",
		"3. a":                           `<ol start="3"><li>a</li></ol>`,
		"- [x] a\n- [ ] b":               `<ul><li><input type="checkbox" disabled checked aria-label="done"> a</li><li><input type="checkbox" disabled aria-label="to do"> b</li></ul>`,
		"> a":                            "<blockquote><p>a</p></blockquote>",
		"---":                            "<hr>",
		"```go\na < b\n\tc\n```":         "<div class=\"code\"><span class=\"lang\">go</span><pre><code>a &lt; b\n\tc\n</code></pre></div>",
		"a|b\n-|-\nc|d":                  `<div class="table"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>c</td><td>d</td></tr></tbody></table></div>`,
		"|`a\\|b`|c\\| |\n|-|-|":         `<div class="table"><table><thead><tr><th><code>a|b</code></th><th>c|</th></tr></thead></table></div>`,
		"a|b\n-|-\nc|d|*e*|f|":           `<div class="table"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>c</td><td>d</td><td>*e*|f</td></tr></tbody></table></div>`,
		"```sh a | b\n```":               `<div class="code"><span class="lang">sh a | b</span><pre><code></code></pre></div>`,
		"a|b\n-|\nc\n:-|-:\nd|\\|":       `<p>a|b<br>-|<br>c<br>:-|-:<br>d||</p>`,
		"a\nb|c\n:-|-:\nd":               `<p>a</p><div class="table"><table><thead><tr><th>b</th><th>c</th></tr></thead><tbody><tr><td>d</td><td></td></tr></tbody></table></div>`,
		"- [x](b)\n- [x]\n- [y] c":       `<ul><li>x <span class="host">(b)</span></li><li>[x]</li><li>[y] c</li></ul>`,
		"~a~ ~~b~ c~~ ~~~d~~~":           "<p><del>a</del> <del>b~ c</del> ~~~d~~~</p>",
		"[a](https://b.example 'c \"d')": `<p><a href="https://b.example"` + link + `a</a> <span class="host">(b.example "c "d")</span></p>`,
		"[https://b.example](https://b.example (c))": `<p><a href="https://b.example"` + link + `https://b.example</a> <span class="host">("c")</span></p>`,
		"`a\\|b`":                                      `<p><code>a\|b</code></p>`,
		"<b>a</b>":                                     "<p>&lt;b&gt;a&lt;/b&gt;</p>",
		"&lt;b&gt; \\*a\\* &amp;lt;":                   "<p>&lt;b&gt; *a* &amp;lt;</p>",
		"a\u202eb\x1b":                                 `<p>a<span class="esc">\u202e</span>b<span class="esc">\e</span></p>`,
		"[a](https://b.example/c?d=1&e=2)":             `<p><a href="https://b.example/c?d=1&amp;e=2"` + link + `a</a> <span class="host">(b.example/…)</span></p>`,
		"https://b.example/c":                          `<p><a href="https://b.example/c"` + link + `https://b.example/c</a></p>`,
		"(www.b.example/c_(d)), e":                     `<p>(<a href="http://www.b.example/c_(d)"` + link + `www.b.example/c_(d)</a>), e</p>`,
		"https://b.example:8/c&amp;d&quot;.":           `<p><a href="https://b.example:8/c&amp;amp;d"` + link + `https://b.example:8/c&amp;amp;d</a>".</p>`,
		"https://b.example@c.example http://b/c":       `<p>https://b.example@c.example http://b/c</p>`,
		"https://b.example:c <d@e.example->":           `<p><a href="https://b.example"` + link + `https://b.example</a>:c &lt;d@e.example-&gt;</p>`,
		"_https://b.example/_ a.b@c.example, b@c":      `<p><em><a href="https://b.example/"` + link + `https://b.example/</a></em> <a href="mailto:a.b@c.example"` + link + `a.b@c.example</a>, b@c</p>`,
		"[https://a.example](https://b.example)":       `<p><a href="https://b.example"` + link + `https://a.example</a> <span class="host">(b.example)</span></p>`,
		"[https://b.example](https://b.example)":       `<p><a href="https://b.example"` + link + `https://b.example</a></p>`,
		"[main](cmd/main.go)":                          `<p>main <span class="host">(cmd/main.go)</span></p>`,
		"[main.go](main.go)":                           `<p>main.go</p>`,
		"[a](javascript:b)":                            `<p>a <span class="host">(javascript:b)</span></p>`,
		"a@b.example":                                  `<p><a href="mailto:a@b.example"` + link + `a@b.example</a></p>`,
		"![a](https://b.example/c.png)":                `<p><a href="https://b.example/c.png"` + link + `a</a> <span class="host">(image b.example/…)</span></p>`,
		"[![a](https://b.example)](https://c.example)": `<p><a href="https://c.example"` + link + `a <span class="host">(image b.example)</span></a> <span class="host">(c.example)</span></p>`,
	} {
		if got, ok := HTML(text); got != want || !ok {
			t.Errorf("%q\ngot  %s, %t\nwant %s", text, got, ok, want)
		}
	}
}

// What is over a limit is not rendered, and what is at it is.
func TestLimits(t *testing.T) {
	t.Parallel()
	row := func(cell string, n int) string { return strings.Repeat("|"+cell, n) + "|\n" }
	for name, c := range map[string]struct{ within, over string }{
		"text":     {strings.Repeat("a", MaxText), strings.Repeat("a", MaxText+1)},
		"quotes":   {strings.Repeat("> ", maxDepth-1) + "a", strings.Repeat("> ", maxDepth+1) + "a"},
		"lists":    {lists(maxDepth - 1), lists(maxDepth + 1)},
		"numbers":  {strings.Repeat("1.5 ", 50), strings.Repeat("1. ", 50) + "a"},
		"rules":    {strings.Repeat("- ", 50) + "\n\n" + strings.Repeat("* ", 50), strings.Repeat("+ ", 50)},
		"emphasis": {strings.Repeat("*a _b ", maxDepth/2-1) + strings.Repeat("c_ d* ", maxDepth/2-1), strings.Repeat("*a _b ", maxDepth) + strings.Repeat("c_ d* ", maxDepth)},
		"table":    {row("a", 10) + row("-", 10) + strings.Repeat("|\n", 400), row("a", 10) + row("-", 10) + strings.Repeat("|\n", 5000)},
		"wide":     {row("a", 1000) + row("-", 1000), row("a", 25_000) + row("-", 25_000)},
		"accents":  {"a" + strings.Repeat("\u0301", maxStacked), "a" + strings.Repeat("\u0301", maxStacked+1)},
		"tags":     {strings.Repeat("a\n", maxTags), strings.Repeat("a\n", maxTags+2)},
		"HTML":     {strings.Repeat("\x01", 1000), strings.Repeat("\x01", MaxText)},
	} {
		if _, ok := HTML(c.within); !ok {
			t.Errorf("%s: over a limit: %.80q", name, c.within)
		}
		if html, ok := HTML(c.over); ok {
			t.Errorf("%s: within the limits: %.80q is %.200s", name, c.over, html)
		}
	}
}

// lists are lists in each other.
func lists(depth int) string {
	var b strings.Builder
	for n := range depth {
		b.WriteString(strings.Repeat("  ", n) + "- a\n")
	}
	return b.String()
}

// In each paragraph only the first marks count, so that none takes quadratic time.
func TestMarksOfAParagraph(t *testing.T) {
	t.Parallel()
	for mark, want := range map[string]int{"*a* ": maxMarks / 2, "_a_ ": maxMarks / 2, "~~a~~ ": maxMarks / 2, "`a` ": maxMarks, "[a](https://b.example) ": maxMarks / 2} {
		paragraph := strings.Repeat(mark, 2*maxMarks)
		html, ok := HTML(paragraph + "\n\n" + paragraph)
		n := 0
		for _, name := range []string{"</em>", "</del>", "</code>", "</a>"} {
			n += strings.Count(html, name)
		}
		if !ok || strings.HasPrefix(mark, "[") && n < 2*want || !strings.HasPrefix(mark, "[") && n != 2*want {
			t.Errorf("%q: %d elements, want %d; %t", mark, n, 2*want, ok)
		}
	}
}

// People approve what they read: every word of a text is in what is rendered of it, or in the
// address of a link that says that it goes on.
func TestNoWordIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"|aaa|bbb|\n|-|-|\n|ccc|ddd|eee|fff|\n|ggg\n||hhh|iii\n|jjj|`kkk\\|lll`|mmm", "> |aaa|\n> |-|\n> |bbb|ccc\n",
		"```aaa bbb `ccc\nddd\n```eee", "~~~aaa ``` bbb\nccc\n~~~", "# aaa ### bbb ###\nccc\n---", "<!-- aaa --> <bbb ccc=\"ddd\"> <eee", "[aaa]: https://bbb.example 'ccc'\n\n[aaa]",
		"[aaa](bbb 'ccc') ![ddd](eee \"fff\") [](ggg 'hhh')", "[aaa](https://bbb.example/ccc?ddd#eee \"fff\") <https://ggg.example> hhh@iii.example",
		"- [x] aaa\n- [ ] bbb\n10. ccc\n    ddd\n\n      eee", "aaa\\\nbbb  \nccc &copy; &ddd; \\eee", "***aaa** bbb* ~~ccc~~ `` ddd ` eee ``", "\taaa\n\n    bbb\x00ccc\x1bddd",
	} {
		html, ok := HTML(text)
		if !ok {
			t.Errorf("%q is over a limit", text)
		}
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r < 'a' || r > 'z' }) {
			if len(word) == 3 && !strings.Contains(html, word) {
				t.Errorf("%q: %s is not in %s", text, word, html)
			}
		}
	}
}
