// Dialog with a searchable list of classes or pairs of classes. The server filters the list, which may be long.

import { byId, create } from "./dom.js";

const dialog = byId("picker");
const search = byId("search");
const list = byId("options");
let current = null; // { fetchOptions, resolve }
let options = [];
let active = 0;
let requests = 0;

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

const refresh = async () => {
  const number = ++requests;
  const fetched = (await current?.fetchOptions(search.value)) ?? [];
  if (number !== requests || current === null) return; // outdated response
  options = fetched;
  list.replaceChildren(
    ...options.map((option, index) =>
      create(
        "li",
        { role: "option", id: `option-${index}`, click: () => finish(option), pointermove: () => activate(index) },
        create("span", { class: "name" }, option.name),
        option.note && create("small", {}, option.note),
      ),
    ),
  );
  byId("no-options").hidden = options.length > 0;
  activate(0);
};

search.addEventListener("input", refresh);
search.addEventListener("keydown", (event) => {
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
  if (event.key in steps) activate(active + steps[event.key]);
  else if (event.key === "Enter") options.length > 0 && finish(options[active]);
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
    list.replaceChildren();
    dialog.showModal();
    search.focus();
    refresh();
  });
