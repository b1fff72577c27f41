// View of a page of samples. Verdicts apply to the selected samples, or to the focused one.

import { breakable, byId, create, describeVerdict, formatNumber, percent, pluralize } from "./dom.js";
import { createPreview } from "./preview.js";
import { actionButton, otherVerdicts } from "./sample_view.js";

const BADGES = { accept: "accepted", keep: "kept", choose: "another class", unsure: "not sure", drop: "no class" };

export class GridView {
  constructor(main, actions) {
    this.main = main;
    this.actions = actions;
    this.items = [];
    this.selected = new Set();
    this.focused = 0;
  }

  show({ items, position, matching }) {
    this.items = items;
    this.selected.clear();
    this.focused = 0;
    this.list = create("ul", { class: "tiles", "aria-label": "Samples", keydown: (event) => this.onKey(event) });
    this.list.append(...items.map((item, index) => this.createTile(item, index)));
    this.toolbar = create("div", { class: "toolbar", role: "group", "aria-label": "Verdict on the selected samples" });
    const last = position + items.length - 1;
    this.main.replaceChildren(
      create(
        "nav",
        { class: "steps pages", "aria-label": "Pages" },
        create("button", { type: "button", click: this.actions.previous, disabled: position === 1, "aria-keyshortcuts": "[", "aria-label": "Previous page" }, "←"),
        create("span", {}, `${formatNumber(position)} to ${formatNumber(last)} of ${formatNumber(matching)}`),
        create("button", { type: "button", click: this.actions.next, disabled: last >= matching, "aria-keyshortcuts": "]", "aria-label": "Next page" }, "→"),
      ),
      this.list,
    );
    byId("actions").replaceChildren(this.toolbar);
    this.updateToolbar();
  }

  createTile(item, index) {
    const { id, given, proposed, state, decision } = item;
    const box = create("input", {
      type: "checkbox",
      tabindex: -1,
      "aria-label": `Select ${id}`,
      change: () => this.select(index, box.checked),
    });
    box.checked = this.selected.has(index);
    const changed = given !== proposed;
    const status = decision ? describeVerdict(decision.verdict, decision.label) : "open";
    return create(
      "li",
      {
        class: `tile ${state}`,
        tabindex: index === this.focused ? 0 : -1,
        "aria-label": `${id}: ${given}${changed ? `, proposed ${proposed}` : ""}, ${status}`,
        focus: () => this.setFocused(index),
      },
      create("button", { type: "button", class: "open", tabindex: -1, "aria-label": `Open ${id}`, click: () => this.actions.open(item.row) }, createPreview(item, 320)),
      create("label", { class: "select" }, box),
      create(
        "p",
        { class: "labels" },
        create("span", { class: "given-label" }, given),
        changed && [create("span", { class: "arrow" }, "→"), create("span", { class: "proposed-label" }, proposed)],
      ),
      create(
        "p",
        { class: "muted" },
        decision
          ? create("span", { class: `badge ${state}` }, `${BADGES[decision.verdict]}${decision.verdict === "choose" ? `: ${decision.label}` : ""}`)
          : `given label right: ${percent(item.quality)}`,
      ),
      create("p", { class: "id" }, create("code", {}, breakable(id))),
    );
  }

  updateToolbar() {
    const count = this.selected.size;
    const all = count === this.items.length;
    this.toolbar.replaceChildren(
      create("span", {}, count > 0 ? `${pluralize(count, "sample")} selected` : "Focused sample"),
      actionButton("Accept", "Accept", "a", () => this.actions.decide("accept")),
      actionButton("Keep", "Keep", "k", () => this.actions.decide("keep")),
      ...otherVerdicts(this.actions),
      actionButton(all ? "Select none" : "Select all", all ? "None" : "All", "*", () => this.selectAll()),
    );
  }

  // The samples that a verdict applies to.
  targets() {
    const indices = this.selected.size > 0 ? [...this.selected] : [this.focused];
    return indices.map((index) => this.items[index]).filter(Boolean);
  }

  select(index, on = !this.selected.has(index)) {
    if (on) this.selected.add(index);
    else this.selected.delete(index);
    const box = this.list.children[index]?.querySelector("input");
    if (box) box.checked = on;
    this.updateToolbar();
  }

  selectAll() {
    const on = this.selected.size < this.items.length;
    this.items.forEach((_, index) => this.select(index, on));
  }

  // Decided samples stay on the page, so that they can be checked and undone.
  update(items) {
    const hadFocus = this.list.contains(document.activeElement);
    for (const item of items) {
      const index = this.items.findIndex((other) => other.row === item.row);
      if (index < 0) continue;
      const { preview, place } = this.items[index]; // the new preview may be longer
      this.items[index] = { ...item, preview, place };
      this.selected.delete(index);
      this.list.children[index].replaceWith(this.createTile(this.items[index], index));
    }
    this.updateToolbar();
    if (hadFocus) this.list.children[this.focused]?.focus();
  }

  setFocused(index) {
    this.list.children[this.focused]?.setAttribute("tabindex", -1);
    this.focused = index;
    this.list.children[index]?.setAttribute("tabindex", 0);
  }

  moveFocus(step) {
    const index = Math.max(0, Math.min(this.items.length - 1, this.focused + step));
    this.list.children[index]?.focus();
  }

  columns() {
    const tops = [...this.list.children].map((tile) => tile.offsetTop);
    return Math.max(1, tops.filter((top) => top === tops[0]).length);
  }

  onKey(event) {
    if (event.target.parentElement !== this.list && event.key === "Enter") return;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns(), ArrowDown: this.columns(), Home: -this.items.length, End: this.items.length };
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key in steps) this.moveFocus(steps[event.key]);
    else if (event.key === "Enter") this.actions.open(this.items[this.focused].row);
    else if (event.key === " " && event.target.parentElement === this.list) this.select(this.focused);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
