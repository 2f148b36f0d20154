export default (most) => {
  // Markdown of most characters that is known to be slow to parse, or large when drawn.
  const full = (s) => s.repeat(most / s.length), half = (s) => s.repeat(most / 2 / s.length);
  const count = (make) => {
    let text = "";
    for (let n = 1, next; text.length + (next = make(n)).length <= most; n++) text += next;
    return text;
  };
  return [
    ...["a b ", ">", "> > > > > > > > > > a\n", "[", "]", "![", "[a](", "[a](<b", "[a](b \"", "*a ", "*a_ ", "*a **a ", "a* ", "**x*_y__", "_a __b", "*", "_", "~~a ~", "`a``b```c", "\"|\n\\```\\",
      "<", "<a:", "<http:a", "<a ", "</a ", "<!--", "<?", "<![CDATA[", "<div>", "<a b=\"", "http://a.b ", "http://", "*http://a.b/", "(http://a.b/(", "http://a.b/?_.)~", "(www.", "a@", "(a.a.a", "_a", " a@a.a_", "mailto:a@",
      "&amp;", "&a", "&#", "\\", "- a\n", "- ", "1. ", "-\n", "- a\n\n", "# a\n", "#", "a\n=\n", "a\n-\n", "```\n", "~~~a\n", "[a]: b\n", "[a]:\n", "[a]: b '\n", "[a][b]", "a|b\n-|-\n\n", "-|-\n", "|", "|\n", "\x01", "\0", " ", " \n", "\n",
      "\t", "\r", "\ufffd", "- [ ] a\n", "a  \n", "    a\n", "a\n    b\n", "é", "👩\u200d💻", "\"", "'", "(", ")", "[ ", "] ", "!", "{", "a\\\n", "=\n", "***\n", "a:"].map(full),
    half("[") + half("]"), half("[a ") + half("](b)"), half("*") + "a" + half("*").slice(1), half("_") + "a" + half("_").slice(1), half("`") + half("a"), half("*a ") + half("b* "), half("(") + half(")"), half("<") + half(">"),
    "[a](" + full("(").slice(10), "[a](b '" + full("\\'").slice(10), "> ".repeat(20) + full("a\n").slice(50), "- a\n" + full("\n").slice(10), "- a\n" + full("  b\n").slice(10), "http://a.b/" + full("&a;").slice(20), "a\n" + full(" ").slice(10), "a" + full("\u0301").slice(10),
    "|a".repeat(200) + "\n" + "|-".repeat(200) + "\n" + half("|\n"), "a|b\n-|-\n" + full("|\n").slice(10), "a|b\n-|-\n" + full("`\\|`|\n").slice(10), half("a|") + "\n" + half("-|").slice(3) + "\n",
    count((n) => "`".repeat(n) + "a"), count((n) => "  ".repeat(n) + "- a\n"), count((n) => `[r${n}]: /x\n[r${n}]\n\n`), count((n) => ">".repeat(n) + "\n"), count((n) => "*".repeat(n) + "a"), count((n) => "> ".repeat(n % 19) + "- a\n"),
  ];
};
