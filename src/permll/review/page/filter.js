// Filter, order and view. The URL holds them with the position, so a reload loses nothing.

import { breakable, byId } from "./dom.js";

export const STATES = ["open", "decided", "unsure", "any"];
export const SORTS = ["suspicion", "confidence", "pair"];
const VIEWS = ["single", "grid", "matrix"];
const STATE_NAMES = { open: "Open", decided: "Decided", unsure: "Not sure", any: "Any state" };

const params = new URLSearchParams(location.search);
const oneOf = (values, name) => (values.includes(params.get(name)) ? params.get(name) : values[0]);

export const filter = {
  state: oneOf(STATES, "state"),
  sort: oneOf(SORTS, "sort"),
  view: oneOf(VIEWS, "view"),
  all: params.get("all") === "1",
  pair: params.get("pair") ?? "",
  names: params.get("names") ?? "",
  find: params.get("find") ?? "",
};

// Position at which the page was opened: a sample, or the place after which a page of the grid starts.
export const start = { row: Number(params.get("row") ?? NaN), after: Number(params.get("after")) || 0 };

export const query = () => ({
  state: filter.state,
  all: filter.all ? "1" : "0",
  ...(filter.pair && { pair: filter.pair }),
  ...(filter.find && { find: filter.find }),
  ...(filter.sort !== SORTS[0] && { sort: filter.sort }),
});

export const updateUrl = (position) => {
  const url = new URLSearchParams(query());
  if (filter.pair) url.set("names", filter.names);
  if (filter.view !== VIEWS[0]) url.set("view", filter.view);
  for (const [name, value] of Object.entries(position)) url.set(name, value);
  history.replaceState(null, "", `/?${url}`);
};

export const showFilter = () => {
  const { elements } = document.querySelector(".filters");
  elements.state.value = filter.state;
  elements.view.value = filter.view;
  elements.sort.value = filter.sort;
  byId("unflagged").checked = filter.all;
  byId("pair").textContent = filter.pair ? filter.names : "All class pairs";
  byId("clear-pair").hidden = !filter.pair;
  byId("find").replaceChildren(...(filter.find ? ["Id: ", ...breakable(filter.find)] : ["Find an id"]));
  byId("clear-find").hidden = !filter.find;
  const parts = [STATE_NAMES[filter.state], filter.pair && filter.names, filter.find, filter.all ? "all labels" : "flagged labels"];
  byId("filter-summary").textContent = parts.filter(Boolean).join(" · ");
};

// The filter is collapsible on narrow screens, and always open on wide ones.
const wide = matchMedia("(min-width: 60.01rem)");
const toggleFilter = () => (byId("filter").open = wide.matches);
wide.addEventListener("change", toggleFilter);
toggleFilter();
