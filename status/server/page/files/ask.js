// Requests to the service, but for the stream of events.

// Problem is an answer that says what went wrong (RFC 9457), or that none came.
export class Problem extends Error {
  constructor({ status = 0, code = "", detail = "", hint = "" }) {
    super(detail);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
  // Whether the request may have been carried out all the same: nobody said no.
  get unsure() {
    return this.status === 0 || this.status === 502 || this.status === 504;
  }
}

// ask asks the service and returns its answer. after is how long it may take, in
// ms; the service itself answers within 30 s.
export async function ask(path, { method = "GET", body, key, after = 40000 } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  let response;
  let answer;
  try {
    response = await fetch(path, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin", cache: "no-store", redirect: "error", signal: AbortSignal.timeout(after),
    });
    answer = await response.json();
  } catch {
    throw new Problem({ code: "no_answer", detail: "The service did not answer", hint: "" });
  }
  if (response.ok) return answer;
  throw new Problem({ status: response.status, code: answer.code, detail: answer.detail ?? response.statusText, hint: answer.hint });
}

const part = encodeURIComponent;

// query makes the query of an address of what is given.
function query(fields) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value !== undefined && value !== null && value !== "") q.set(name, value);
  }
  const text = q.toString();
  return text && "?" + text;
}

export const version = () => ask("/v1/version");
export const team = (name) => ask(`/v1/teams/${part(name)}`);
export const messages = (name, fields) => ask(`/v1/teams/${part(name)}/messages${query(fields)}`);
export const search = (fields) => ask(`/v1/search${query(fields)}`);
export const send = (name, member, body, key) =>
  ask(`/v1/teams/${part(name)}/members/${part(member)}/messages`, { method: "POST", body, key });
export const broadcast = (name, body, key) => ask(`/v1/teams/${part(name)}/broadcast`, { method: "POST", body, key });
export const markRead = (name, inbox, ids) => ask(`/v1/teams/${part(name)}/read`, { method: "POST", body: { inbox, ids } });
