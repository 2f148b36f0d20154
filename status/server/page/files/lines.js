// Streamed answers of the service: a line of JSON for each change.

import { Problem } from "./request.js";

// lines yields the values of such an answer, until signal ends it.
export async function* lines(path, signal) {
  const gone = () => new Problem({ code: "no_answer", detail: "The service did not answer" });
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", cache: "no-store", redirect: "error", signal });
  } catch {
    throw gone();
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new Problem({ status: response.status, code: answer.code, detail: answer.detail ?? response.statusText, hint: answer.hint });
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    if (done) throw gone();
    const [end, ...more] = value.split("\n");
    parts.push(end);
    for (const next of more) {
      const read = JSON.parse(parts.join(""));
      if (read.error) throw new Problem({ status: 500, code: read.error.code, detail: read.error.message, hint: read.error.hint });
      yield read;
      parts = [next];
    }
  }
}
