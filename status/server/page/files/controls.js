// The controls of a relayed agent: interrupt it, start it again, move it, and change its settings.

import { escaped, h, setAttr, setText } from "./dom.js";
import { changeDelivery, controlRelay, move, Problem } from "./request.js";
import { capital, flat } from "./text.js";

// The permission modes that the page offers. The one that skips all questions is left out.
const modes = [["default", "Ask before edits and commands"], ["acceptEdits", "Edit files without asking"], ["plan", "Plan only"]];

// The names to show for runtimes other than Claude Code.
const runtimes = { opencode: "OpenCode" };

// Controls has the controls of one agent at a time.
export class Controls {
  #page;
  #place = null;
  #chosen = {}; // the settings for the next message
  #busy = false;
  #note = h("p", { class: "control-note", role: "status" });
  #interrupt = this.#button("Interrupt", (relay) => controlRelay(relay, "interrupt"), "Interrupted.");
  #start = this.#button("Start again", (relay) => controlRelay(relay, "retry"), "Starting again.");
  #retry = this.#button("", () => Promise.all(this.#failed.map((a) => changeDelivery(a.delivery, "retry"))), "Sending again.");
  #move = this.#button("", () => move(this.#place.team, this.#place.member, this.#to, this.#force), "Requested.");
  #to; // where the button moves the session
  #force; // whether to move it despite what holds it
  #failed = []; // the attention items of failed deliveries to the agent
  #model = h("input", { type: "text", list: "models", autocomplete: "off", spellcheck: "false", oninput: () => this.#choose("model", this.#model.value.trim()) });
  #mode = h("select", { onchange: () => this.#choose("permissionMode", this.#mode.value) });
  #models = h("datalist", { id: "models" });
  #summary = h("summary", { class: "small" });
  #menu = h("details", { class: "menu" }, this.#summary, h("div", { class: "menu-body" },
    h("label", null, "Model", this.#model), this.#models,
    h("label", null, "Permissions", this.#mode),
    h("p", { class: "hint" }, "Changes apply from your next message on.")));
  element = h("div", { class: "controls", hidden: true }, this.#note, this.#interrupt, this.#start, this.#move, this.#retry, this.#menu);

  constructor(page) {
    this.#page = page;
    this.#menu.addEventListener("keydown", (e) => {
      if (e.key !== "Escape" || !this.#menu.open) return;
      e.stopPropagation();
      this.#menu.open = false;
      this.#summary.focus();
    });
  }

  // refresh shows the controls of the agent of a conversation.
  refresh(place) {
    const same = this.#place && place && ["team", "createdAt", "member"].every((k) => this.#place[k] === place[k]);
    if (!same) {
      this.#place = place;
      this.#chosen = {};
      this.#menu.open = false;
      setText(this.#note, "");
    }
    const relay = place?.member && this.#page.team(place) && this.#page.relays.of(place);
    this.element.hidden = !relay || this.#page.readOnly;
    if (this.element.hidden) return;
    this.#failed = this.#page.snapshot.attention.filter((a) => a.delivery && a.relay === relay.relay);
    setText(this.#retry, `Send ${this.#failed.length} failed again`);
    // A button with the focus stays, so that the focus is not lost.
    const offer = (button, is) => { button.hidden = !is && document.activeElement !== button; };
    // The service cannot interrupt or start an agent that another process runs.
    const ours = Boolean(relay.created);
    const { at, to, reason } = relay.place ?? {};
    this.#to = at === "local" ? "remote" : "local";
    this.#force = to === this.#to && Boolean(reason); // a switch that is held
    setText(this.#move, this.#force ? "Switch now" : at === "local" ? "Take from the terminal" : "Give to the terminal");
    setAttr(this.#move, "title", this.#force ? `The switch is held: ${flat(reason)}. "Switch now" interrupts the agent, and drops a draft that cannot be kept.` : null);
    offer(this.#move, Boolean(at));
    offer(this.#interrupt, ours && relay.state === "working");
    offer(this.#start, ours && (relay.state === "dead" || relay.state === "ended" || relay.state === "backing off"));
    offer(this.#retry, this.#failed.length > 0);
    const now = relay.settings ?? relay.mode ?? {};
    if (document.activeElement !== this.#model) this.#model.value = this.#chosen.model ?? now.model ?? "";
    this.#model.placeholder = "Default";
    const mode = this.#chosen.permissionMode ?? now.permissionMode ?? "default";
    if (document.activeElement !== this.#mode) {
      const known = modes.some(([name]) => name === mode);
      this.#mode.replaceChildren(...[...modes, ...(known ? [] : [[mode, mode]])].map(([name, words]) => h("option", { value: name }, escaped(words))));
      this.#mode.value = mode;
    }
    const known = relay.runtime ? [] : ["opus", "sonnet", "haiku"];
    if (this.#models.childElementCount !== known.length) this.#models.replaceChildren(...known.map((m) => h("option", { value: m })));
    this.#summarize(relay);
  }

  #summarize(relay) {
    const now = relay.settings ?? relay.mode ?? {};
    const model = this.#chosen.model ?? now.model ?? "";
    const mode = this.#chosen.permissionMode ?? relay.permissionMode ?? now.permissionMode ?? "default"; // first what the agent reports
    const pending = Object.keys(this.#chosen).length > 0;
    setText(this.#summary, [runtimes[relay.runtime], flat(model || "Default model"), mode === "default" ? "" : flat(mode)].filter(Boolean).join(" · ") + (pending ? " (next message)" : ""));
    setAttr(this.#summary, "data-pending", pending);
  }

  #choose(key, value) {
    const relay = this.#page.relays.of(this.#place);
    const now = relay?.settings ?? relay?.mode ?? {};
    const is = now[key] ?? (key === "permissionMode" ? "default" : "");
    if (value === is) delete this.#chosen[key];
    else this.#chosen[key] = value || null;
    this.#summarize(relay ?? {});
  }

  // take returns the chosen settings, as the mode of a message that is sent now.
  take() {
    const mode = this.#chosen;
    this.#chosen = {};
    this.#menu.open = false;
    return Object.keys(mode).length > 0 && !this.element.hidden ? mode : undefined;
  }

  #button(label, does, done) {
    return h("button", { type: "button", class: "small", onclick: () => this.#do(does, done) }, label);
  }

  // do runs an action on the relay, and shows its result.
  async #do(does, done) {
    const place = this.#place, relay = this.#page.relays.of(place);
    if (this.#busy || !relay) return;
    this.#busy = true;
    setText(this.#note, "…");
    let text = done;
    try {
      await does(relay.relay);
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      text = capital(problem.message) + ".";
    }
    this.#busy = false;
    if (this.#place === place) setText(this.#note, text);
    this.#page.relays.load();
  }
}
