// The place in a conversation, which is kept when the page is loaded again.

const name = "teambridge:place"; // in sessionStorage

// There is a place to go back to only if the page was loaded again.
let kept = performance.getEntriesByType("navigation")[0]?.type === "navigate" ? null : read();

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(name));
  } catch {
    return null;
  }
}

const key = ({ team, createdAt, member }) => JSON.stringify([team, createdAt, member]);

// takeKept returns the place that was kept for the conversation that is opened first, or null:
// {seq, offset}, which are null at the end.
export function takeKept(conversation) {
  const place = kept?.of === key(conversation) ? kept : null;
  kept = null;
  return place;
}

// keep keeps the place that where returns, as long as the page is open.
export function keep(where) {
  addEventListener("pagehide", () => {
    const place = where();
    if (place) sessionStorage.setItem(name, JSON.stringify({ ...place, of: key(place.conversation) }));
    else sessionStorage.removeItem(name);
  });
}
