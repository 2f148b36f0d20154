// Keeps the reader's place in a conversation when the page is loaded again.

const name = "teambridge:place"; // in sessionStorage

// The place is restored only if the page was loaded again.
let kept = performance.getEntriesByType("navigation")[0]?.type === "navigate" ? null : read();

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(name));
  } catch {
    return null;
  }
}

const key = ({ team, createdAt, member }) => JSON.stringify([team, createdAt, member]);

// takeKept returns the kept place, {seq, offset}, if it is in the conversation that is opened
// first; else null. At the end of the conversation, seq is null.
export function takeKept(conversation) {
  const place = kept?.of === key(conversation) ? kept : null;
  kept = null;
  return place;
}

// keep stores the place that where returns whenever the page is left.
export function keep(where) {
  addEventListener("pagehide", () => {
    const place = where();
    if (place) sessionStorage.setItem(name, JSON.stringify({ ...place, of: key(place.conversation) }));
    else sessionStorage.removeItem(name);
  });
}
