package page

import (
	"maps"
	"slices"
	"strings"
)

// HostileTexts returns messages of the maximum length in shapes that are expensive to show: lines,
// marks, elements, escaped characters, or levels.
func HostileTexts() []string {
	const most = 100 << 10
	full := func(s string) string { return strings.Repeat(s, most/len(s)) }
	nested := func(open, close string, depth int) string {
		return `{"type":"x","a":` + strings.Repeat(open, depth) + "0" + strings.Repeat(close, depth) + "}"
	}
	all := map[string]string{
		"backticks": strings.Repeat("`", most/2) + strings.Repeat("a", most/2), "brackets": full("["), "links": full("[a](https://a.example/b)\n\n"),
		"items": full("* a\n"), "code": full("```\na\n```\n"), "rules": full("---\n\n"), "lines": full("a\n"), "paragraphs": full("a\n\n"), "one word": full("a"),
		"controls": full("\x01"), "some controls": full("a\x01"), "reordered": full("\u202ea"), "table": strings.Repeat("|a", 40) + "|\n" + strings.Repeat("|-", 40) + "|\n" + strings.Repeat(strings.Repeat("|b", 40)+"|\n", 1200),
		"emphasis": full("**a** _b_ "), "accents": "a" + full("\u0301"), "emoji": full("👩\u200d💻"), "right to left": full("שלום "),
		"3000 levels": nested("[", "]", 3000), "9000 levels": nested("[", "]", 9000), "9000 objects": nested(`{"a":`, "}", 9000), "a long list": `{"type":"x","a":[` + full("0,") + "0]}",
		"quotes": full("> a\n\n"), "idle": `{"type":"idle_notification","idleReason":"constructor","summary":"` + full("a ") + `"}`,
	}
	list := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}
