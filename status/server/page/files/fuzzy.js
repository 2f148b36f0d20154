// Finds names by a few of their letters.

const boundary = /[^\p{L}\p{N}]/u;

// score returns how well a text matches all words of a query, in any order; 0 if it does not.
// The beginning of the text counts more than the beginning of a word in it, that more than a
// place inside a word, and letters in order with others between them least.
export function score(query, text) {
  const where = text.toLowerCase();
  let sum = 1;
  for (const word of query.toLowerCase().split(/\s+/).filter(Boolean)) {
    const value = one(word, where);
    if (value === 0) return 0;
    sum += value;
  }
  return sum;
}

function one(word, text) {
  let best = 0;
  for (let at = text.indexOf(word); at >= 0 && best < 8; at = text.indexOf(word, at + 1)) {
    best = Math.max(best, at === 0 ? 8 : boundary.test(text[at - 1]) ? 6 : 3);
  }
  if (best > 0) return best;
  let at = 0;
  for (const c of text) if (c === word[at]) at++;
  return at === word.length ? 1 : 0;
}
