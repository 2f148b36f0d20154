// The options of a message to a terminal pane or a session: when it is delivered, and whether the reader learns when
// its task is done.

import { showDialog } from "./dialog.js";
import { h } from "./dom.js";

const policies = {
  queued: ["As its next message", "It is delivered even while the agent works, and the agent takes it next."],
  important: ["Before other messages", "As its next message, ahead of others that wait."],
  "when-idle": ["When it is idle", "It is delivered once the agent waits for a prompt."],
  urgent: ["Interrupt it", "The agent is stopped with Esc first."],
};

export class PaneChoice {
  #policy = h("select", { class: "choose", id: "policy", "aria-label": "When to deliver it", onchange: () => this.#show() },
    Object.entries(policies).map(([value, [words]]) => h("option", { value }, words)));
  #notify = h("input", { type: "checkbox", id: "notify" });
  elements = [this.#policy, h("label", { class: "check" }, this.#notify, " Tell me when it is done")];

  constructor() {
    this.show(false);
    this.#show();
  }

  #show() {
    this.#policy.title = policies[this.#policy.value][1];
  }

  // show shows the choices for "panes" or "sessions"; else it hides them. A session cannot be interrupted.
  show(queue) {
    for (const e of this.elements) e.hidden = !queue;
    const urgent = this.#policy.querySelector('[value="urgent"]');
    urgent.hidden = urgent.disabled = queue === "sessions";
    if (urgent.disabled && this.#policy.value === "urgent") this.#policy.value = "queued";
  }

  // take calls send with the chosen options; for an interruption, after the reader has confirmed
  // it. Members of teams have no options.
  take(title, send) {
    if (this.#policy.hidden) return send(undefined);
    const chosen = { policy: this.#policy.value, notifyOnStop: this.#notify.checked };
    if (chosen.policy !== "urgent") return send(chosen);
    const dialog = showDialog("confirm", "Interrupt",
      h("p", null, `The current task of ${title} is stopped. What it has done so far stays.`),
      h("p", { class: "confirm-acts" },
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel"),
        h("button", { type: "button", class: "send", autofocus: true, onclick: () => {
          dialog.close();
          this.#policy.value = "queued";
          this.#show();
          send(chosen);
        } }, "Interrupt and send")));
  }
}
