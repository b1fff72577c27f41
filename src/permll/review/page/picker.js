// Dialog with a searchable list of classes, pairs of classes or ids. The server filters the list, which may be long.

import { breakable, byId, create } from "./dom.js";

const dialog = byId("picker");
const search = byId("search");
const list = byId("options");
let current = null; // { fetchOptions, resolve }
let options = [];
let active = 0;
let requests = 0;
let refreshed = Promise.resolve(); // when the options of the present text are shown

const activate = (index) => {
  active = Math.max(0, Math.min(options.length - 1, index));
  [...list.children].forEach((entry, number) => entry.setAttribute("aria-selected", number === active));
  const entry = list.children[active];
  if (entry) search.setAttribute("aria-activedescendant", entry.id);
  else search.removeAttribute("aria-activedescendant");
  entry?.scrollIntoView({ block: "nearest" });
};

const finish = (option) => {
  const { resolve } = current ?? {};
  current = null;
  if (dialog.open) dialog.close();
  resolve?.(option ?? null);
};

const choose = async () => {
  await refreshed; // fast typists press Enter before the options arrive
  if (options.length > 0) finish(options[active]);
};

const update = async () => {
  const number = ++requests;
  let message = "No matches.";
  const fail = (error) => {
    message = error.message;
    return [];
  };
  const fetched = (await current?.fetchOptions(search.value).catch(fail)) ?? [];
  if (number !== requests || current === null) return; // outdated response
  options = fetched;
  list.replaceChildren(
    ...options.map((option, index) =>
      create(
        "li",
        { role: "option", class: option.title ? "extra" : null, id: `option-${index}`, click: () => finish(option), pointermove: () => activate(index) },
        create("span", { class: "name" }, breakable(option.title ?? option.name)),
        option.note && create("small", {}, option.note),
        option.key && create("kbd", { "aria-label": `key ${option.key}` }, option.key),
      ),
    ),
  );
  byId("no-options").textContent = message;
  byId("no-options").hidden = options.length > 0;
  activate(0);
};

const refresh = () => (refreshed = update());

search.addEventListener("input", refresh);
search.addEventListener("keydown", (event) => {
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
  if (event.key in steps) activate(active + steps[event.key]);
  else if (event.key === "Enter") choose();
  else return;
  event.preventDefault();
});
dialog.addEventListener("close", () => dialog.open || finish(null)); // may fire after the dialog was opened again
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

// fetchOptions maps the search text to options { name, note, ... }. Resolves to the chosen option, or null.
export const pick = (heading, fetchOptions) =>
  new Promise((resolve) => {
    current?.resolve(null);
    current = { fetchOptions, resolve };
    byId("picker-heading").textContent = heading;
    search.value = "";
    options = [];
    list.replaceChildren();
    dialog.showModal();
    search.focus();
    refresh();
  });
