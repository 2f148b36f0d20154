package markdown

import (
	"fmt"
	"strings"
	"testing"
)

// repeat fills a text of the largest size.
func repeat(s string) string { return strings.Repeat(s, MaxText/len(s)) }

// hostileSizes are texts of the largest size that are known to be slow to parse, or large when
// written.
func hostileSizes() map[string]string {
	half := func(s string) string { return strings.Repeat(s, MaxText/2/len(s)) }
	var ticks strings.Builder
	for n := 1; ticks.Len()+n+1 < MaxText; n++ {
		ticks.WriteString(strings.Repeat("`", n) + "a")
	}
	var deep strings.Builder
	for n := 0; deep.Len()+2*n+4 < MaxText; n++ {
		deep.WriteString(strings.Repeat("  ", n) + "- a\n")
	}
	var refs strings.Builder
	for n := 0; refs.Len() < MaxText-40; n++ {
		fmt.Fprintf(&refs, "[r%d]: /x\n[r%d]\n\n", n, n)
	}
	return map[string]string{
		"plain":                 repeat("a b "),
		"quotes":                repeat(">"),
		"quotes in lines":       repeat("> > > > > > > > > > a\n"),
		"lazy quotes":           strings.Repeat("> ", 20) + repeat("a\n")[50:],
		"brackets open":         repeat("["),
		"brackets closed":       repeat("]"),
		"brackets":              half("[") + half("]"),
		"images open":           repeat("!["),
		"links open":            repeat("[a]("),
		"links half":            repeat("[a](<b"),
		"link titles":           repeat(`[a](b "`),
		"links in links":        half("[a ") + half("](b)"),
		"parentheses":           "[a](" + repeat("(")[10:],
		"emphasis open":         repeat("*a "),
		"emphasis both":         repeat("*a_ "),
		"emphasis mixed":        repeat("*a **a "),
		"emphasis pairs":        half("*") + "a" + half("*")[1:],
		"emphasis close":        repeat("a* "),
		"emphasis alternating":  repeat("**x*_y__"),
		"underscores":           repeat("_a __b"),
		"stars":                 repeat("*"),
		"tildes":                repeat("~~a ~"),
		"ticks":                 ticks.String(),
		"ticks open":            repeat("`a``b```c"),
		"ticks escaped":         repeat("\"|\n\\```\\"),
		"less":                  repeat("<"),
		"autolinks open":        repeat("<a:"),
		"autolinks long":        repeat("<http:a"),
		"addresses":             repeat("http://a.b "),
		"addresses unspaced":    repeat("http://"),
		"addresses in stars":    repeat("*http://a.b/"),
		"addresses parentheses": repeat("(http://a.b/("),
		"addresses ended":       repeat("http://a.b/?_.)~"),
		"addresses entities":    "http://a.b/" + repeat("&a;")[20:],
		"www":                   repeat("(www."),
		"mail":                  repeat("a@"),
		"mail dots":             repeat("(a.a.a"),
		"mail marks":            repeat("_a"),
		"mail hosts":            repeat(" a@a.a_"),
		"entities":              repeat("&amp;"),
		"entities open":         repeat("&a"),
		"backslashes":           repeat(`\`),
		"lists":                 repeat("- a\n"),
		"lists in a line":       repeat("- "),
		"list numbers":          repeat("1. "),
		"deep lists":            deep.String(),
		"blank items":           repeat("-\n"),
		"blank lines in items":  "- a\n" + repeat("\n")[10:],
		"headings":              repeat("# a\n"),
		"underlines":            repeat("a\n=\n"),
		"fences":                repeat("```\n"),
		"fences open":           repeat("~~~a\n"),
		"references":            refs.String(),
		"reference labels":      repeat("[a]: b\n"),
		"reference open":        repeat("[a]:\n"),
		"reference titles":      repeat("[a]: b '\n"),
		"long reference":        "[a]: https://x.y/" + half("z") + "\n\n" + strings.Repeat("[a] ", 10000),
		"wide table":            half("a|") + "\n" + half("-|")[:MaxText/2-3] + "\n",
		"table of blanks":       strings.Repeat("|a", 200) + "\n" + strings.Repeat("|-", 200) + "\n" + strings.Repeat("|\n", 40000),
		"narrow table":          "a|b\n-|-\n" + strings.Repeat("|\n", 50000),
		"table of ticks":        "a|b\n-|-\n" + strings.Repeat("`\\|`|\n", 17000),
		"tables":                repeat("a|b\n-|-\n\n"),
		"table lines":           repeat("-|-\n"),
		"control":               repeat("\x01"),
		"nul":                   repeat("\x00"),
		"spaces":                repeat(" "),
		"tabs":                  repeat("\t"),
		"returns":               repeat("\r"),
		"invalid":               repeat("\xff"),
		"tasks":                 repeat("- [ ] a\n"),
	}
}

// report is a text of 2 KiB, as agents write them.
var report = strings.Repeat("## Done\n\nThe **parser** is fixed, see [the run](https://ci.example/7) and `go test ./...`:\n\n- [x] tables\n- [ ] lists, *soon*\n\n"+
	"| package | before | after |\n|---|---|---|\n| a | 12 ms | 3 ms |\n\n```go\nfunc main() {\n\tfmt.Println(1 < 2)\n}\n```\n\n", 8)

func BenchmarkHTML(b *testing.B) {
	texts := hostileSizes()
	texts["report"] = report
	for name, text := range texts {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				HTML(text)
			}
		})
	}
}
