// Compares two texts line by line.

export const mostCells = 250000; // of the table of common lines

// diff returns the lines of both texts in order: [sign, line], with the sign " " for both,
// "-" for before and "+" for after.
// If that needs a table of more cells, the whole part that differs is first before, then after.
export function diff(before, after, cells = mostCells) {
  let [a, b] = [before, after].map((t) => (t === "" ? [] : t.split("\n")));
  // The end of the last line is shown only if the texts differ in it.
  if (a.at(-1) === "" && (b.length === 0 || b.at(-1) === "")) a.pop();
  if (b.at(-1) === "" && (before === "" || before.endsWith("\n"))) b.pop();
  let start = 0, end = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const same = (list) => list.map((line) => [" ", line]);
  return [...same(a.slice(0, start)), ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end), cells), ...same(a.slice(a.length - end))];
}

// middle finds the longest common subsequence of lines, unless that takes too long.
function middle(a, b, cells) {
  const list = [];
  let i = 0, j = 0;
  if (a.length * b.length <= cells) {
    // common[i][j] is how many lines a from i and b from j have in common.
    const common = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) {
      for (let j = b.length - 1; j >= 0; j--) {
        common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
      }
    }
    while (i < a.length && j < b.length) {
      if (a[i] === b[j]) {
        list.push([" ", a[i++]]);
        j++;
      } else if (common[i + 1][j] >= common[i][j + 1]) list.push(["-", a[i++]]);
      else list.push(["+", b[j++]]);
    }
  }
  while (i < a.length) list.push(["-", a[i++]]);
  while (j < b.length) list.push(["+", b[j++]]);
  return list;
}
