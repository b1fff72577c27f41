// Many samples at once. Verdicts go to those that are selected, or to the one in focus.

import { count, make, percent, said } from "./making.js";
import { look } from "./samples.js";

const BADGES = { accept: "accepted", keep: "kept", choose: "another class", unsure: "not sure" };

export class Grid {
  constructor(main, actions) {
    this.main = main;
    this.actions = actions;
    this.items = [];
    this.selected = new Set();
    this.focused = 0;
  }

  show(page) {
    this.items = page.items;
    this.selected.clear();
    this.focused = 0;
    this.list = make("ul", { class: "tiles", "aria-label": "Samples", keydown: (event) => this.move(event) });
    this.list.append(...this.items.map((item, place) => this.tile(item, place)));
    this.bar = make("div", { class: "bar", role: "group", "aria-label": "Verdict on the selected samples" });
    const last = page.place + this.items.length - 1;
    const [first, total] = [page.place, page.matching].map((number) => number.toLocaleString("en"));
    this.main.replaceChildren(
      make(
        "nav",
        { class: "steps pages", "aria-label": "Pages" },
        make("button", { type: "button", click: this.actions.previous, disabled: page.place === 1, "aria-keyshortcuts": "[", "aria-label": "Previous page" }, "←"),
        make("span", {}, `${first} to ${last.toLocaleString("en")} of ${total}`),
        make("button", { type: "button", click: this.actions.next, disabled: last >= page.matching, "aria-keyshortcuts": "]", "aria-label": "Next page" }, "→"),
      ),
      this.list,
      this.bar,
    );
    this.tell();
  }

  tile(item, place) {
    const box = make("input", {
      type: "checkbox",
      tabindex: -1,
      "aria-label": `Select ${item.id}`,
      change: () => this.select(place, box.checked),
    });
    box.checked = this.selected.has(place);
    const changed = item.given !== item.proposed;
    return make(
      "li",
      {
        class: `tile ${item.state}`,
        tabindex: place === this.focused ? 0 : -1,
        "aria-label": `${item.id}: ${item.given}${changed ? `, proposed ${item.proposed}` : ""}, ${item.decision ? said(item.decision.verdict, item.decision.label) : "open"}`,
        focus: () => this.reach(place),
      },
      make("button", { type: "button", class: "picture", tabindex: -1, "aria-label": `Look at ${item.id} alone`, click: () => this.actions.open(item.row) }, look(item, 320)),
      make("label", { class: "pick" }, box),
      make(
        "p",
        { class: "judged" },
        make("span", { class: "was" }, item.given),
        changed && [make("span", { class: "arrow" }, "→"), make("span", { class: "now" }, item.proposed)],
      ),
      make(
        "p",
        { class: "quiet" },
        item.decision
          ? make("span", { class: `badge ${item.state}` }, `${BADGES[item.decision.verdict]}${item.decision.verdict === "choose" ? `: ${item.decision.label}` : ""}`)
          : `given right: ${percent(item.quality)}`,
      ),
    );
  }

  tell() {
    const number = this.selected.size;
    const act = (text, key, click) => make("button", { type: "button", click, "aria-keyshortcuts": key }, text, make("kbd", { "aria-hidden": "true" }, key));
    this.bar.replaceChildren(
      make("span", {}, number > 0 ? `${count(number, "sample")} selected` : "The one in focus"),
      act("Accept", "a", () => this.actions.decide("accept")),
      act("Keep", "k", () => this.actions.decide("keep")),
      act("Another class", "c", this.actions.choose),
      act("Not sure", "s", () => this.actions.decide("unsure")),
      act(number === this.items.length ? "Select none" : "Select all", "*", () => this.selectAll()),
    );
  }

  // The samples a verdict goes to.
  chosen() {
    const places = this.selected.size > 0 ? [...this.selected] : [this.focused];
    return places.map((place) => this.items[place]).filter(Boolean);
  }

  select(place, on = !this.selected.has(place)) {
    if (on) this.selected.add(place);
    else this.selected.delete(place);
    const box = this.list.children[place]?.querySelector("input");
    if (box) box.checked = on;
    this.tell();
  }

  selectAll() {
    const on = this.selected.size < this.items.length;
    this.items.forEach((_, place) => this.select(place, on));
  }

  // What was decided stays in its place until the next page, so that it can be seen and taken back.
  update(items) {
    const back = this.list.contains(document.activeElement);
    for (const item of items) {
      const place = this.items.findIndex((one) => one.row === item.row);
      if (place < 0) continue;
      this.items[place] = { ...item, look: this.items[place].look }; // it may come with all of its text
      this.selected.delete(place);
      this.list.children[place].replaceWith(this.tile(this.items[place], place));
    }
    this.tell();
    if (back) this.list.children[this.focused]?.focus();
  }

  reach(place) {
    this.list.children[this.focused]?.setAttribute("tabindex", -1);
    this.focused = place;
    this.list.children[place]?.setAttribute("tabindex", 0);
  }

  step(by) {
    const place = Math.max(0, Math.min(this.items.length - 1, this.focused + by));
    this.list.children[place]?.focus();
  }

  columns() {
    const tops = [...this.list.children].map((tile) => tile.offsetTop);
    return Math.max(1, tops.filter((top) => top === tops[0]).length);
  }

  move(event) {
    if (event.target.parentElement !== this.list && event.key === "Enter") return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns(), ArrowDown: this.columns(), Home: -this.items.length, End: this.items.length };
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in steps) this.step(steps[event.key]);
    else if (event.key === "Enter") this.actions.open(this.items[this.focused].row);
    else if (event.key === " " && event.target.parentElement === this.list) this.select(this.focused);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
