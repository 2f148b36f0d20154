// Requests to the service, except for the stream of events.

// Problem is an error of the service (RFC 9457), or says that it did not answer.
export class Problem extends Error {
  constructor({ status = 0, code = "", detail = "", hint = "" }) {
    super(detail);
    this.status = status;
    this.code = code;
    this.hint = hint.includes(" /v1/") ? "" : hint; // such a hint is for programs
  }
  // Whether the service may have done it anyway.
  get uncertain() {
    return this.status === 0 || this.status === 502 || this.status === 504;
  }
}

// timeout of a request, in ms. The service answers within 30 s.
const timeout = 40000;

// request returns the answer of the service.
async function request(path, { method = "GET", body, key } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  let response;
  let answer;
  try {
    response = await fetch(path, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin", cache: "no-store", redirect: "error", signal: AbortSignal.timeout(timeout),
    });
    answer = await response.json();
  } catch {
    throw new Problem({ code: "no_answer", detail: "The service did not answer" });
  }
  if (response.ok) return answer;
  throw new Problem({ status: response.status, code: answer.code, detail: answer.detail ?? response.statusText, hint: answer.hint });
}

const segment = encodeURIComponent;

// query returns the query string of fields, without the empty ones.
function query(fields) {
  const text = new URLSearchParams(Object.entries(fields).filter(([, value]) => (value ?? "") !== "")).toString();
  return text && "?" + text;
}

export const version = () => request("/v1/version");
export const team = (name) => request(`/v1/teams/${segment(name)}`);
export const messages = (name, fields) => request(`/v1/teams/${segment(name)}/messages${query(fields)}`);
export const search = (fields) => request(`/v1/history${query(fields)}`);
export const send = (name, member, body, key) =>
  request(`/v1/teams/${segment(name)}/members/${segment(member)}/messages`, { method: "POST", body, key });
export const broadcast = (name, body, key) => request(`/v1/teams/${segment(name)}/broadcast`, { method: "POST", body, key });
// to is "local" or "remote".
export const move = (name, member, to, force) => request(`/v1/teams/${segment(name)}/members/${segment(member)}/place`, { method: "POST", body: { to, force } });
export const join = (name) => request(`/v1/teams/${segment(name)}/join`, { method: "POST", body: {} });
export const markRead = (name, inbox, ids) => request(`/v1/teams/${segment(name)}/read`, { method: "POST", body: { inbox, ids } });
export const changes = (name, member, fields) => request(`/v1/teams/${segment(name)}/members/${segment(member)}/changes${query(fields)}`);
export const taskHistory = (fields) => request(`/v1/tasks/history${query(fields)}`);
export const usage = (by, since) => request(`/v1/usage${query({ by, since })}`);
export const relays = () => request("/v1/relays");
export const dismiss = (id) => request("/v1/attention/dismiss", { method: "POST", body: { id } });
export const question = (id) => request(`/v1/questions/${segment(id)}`);
export const answer = (id, body) => request(`/v1/questions/${segment(id)}`, { method: "POST", body });
// what is "interrupt" or "retry".
export const controlRelay = (relay, what) => request(`/v1/relays/${segment(relay)}/${what}`, { method: "POST" });
export const hold = (team, member, sender) => request(`/v1/teams/${segment(team)}/members/${segment(member)}/hold${query({ sender })}`, { method: "POST" });
export const release = (team, member, sender) => request(`/v1/teams/${segment(team)}/members/${segment(member)}/release${query({ sender })}`, { method: "POST" });
// what is "retry" or "drop".
export const changeDelivery = (delivery, what) => request(`/v1/deliveries/${segment(delivery)}/${what}`, { method: "POST" });
