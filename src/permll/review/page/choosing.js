// A list to search in: classes, or pairs of them. The list comes from the review, so it may be long.

import { find, make } from "./making.js";

const dialog = find("choosing");
const search = find("search");
const list = find("found");
let current = null; // { fetch, done }
let options = [];
let active = 0;
let asked = 0;

const mark = (place) => {
  active = Math.max(0, Math.min(options.length - 1, place));
  [...list.children].forEach((entry, number) => entry.setAttribute("aria-selected", number === active));
  const entry = list.children[active];
  if (entry) search.setAttribute("aria-activedescendant", entry.id);
  else search.removeAttribute("aria-activedescendant");
  entry?.scrollIntoView({ block: "nearest" });
};

const finish = (option) => {
  const { done } = current ?? {};
  current = null;
  if (dialog.open) dialog.close();
  done?.(option ?? null);
};

const refresh = async () => {
  const number = ++asked;
  const found = (await current?.fetch(search.value)) ?? [];
  if (number !== asked || current === null) return; // an answer to what was typed before
  options = found;
  list.replaceChildren(
    ...options.map((option, place) =>
      make(
        "li",
        { role: "option", id: `option-${place}`, click: () => finish(option), pointermove: () => mark(place) },
        make("span", { class: "name" }, option.name),
        option.note && make("small", {}, option.note),
      ),
    ),
  );
  find("found-none").hidden = options.length > 0;
  mark(0);
};

search.addEventListener("input", refresh);
search.addEventListener("keydown", (event) => {
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
  if (event.key in steps) mark(active + steps[event.key]);
  else if (event.key === "Enter") options.length > 0 && finish(options[active]);
  else return;
  event.preventDefault();
});
dialog.addEventListener("close", () => dialog.open || finish(null)); // comes late: it may be open again
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

// Let somebody choose: fetch is given what was typed and returns options { name, note, ... }; null if none was chosen.
export const chooseFrom = (head, fetch) =>
  new Promise((done) => {
    current?.done(null);
    current = { fetch, done };
    find("choosing-head").textContent = head;
    search.value = "";
    list.replaceChildren();
    dialog.showModal();
    search.focus();
    refresh();
  });
