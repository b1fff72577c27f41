// Review page: navigation and decisions.

import { get, imageUrl, post } from "./api.js";
import { byId, describeVerdict, pluralize } from "./dom.js";
import { SORTS, STATES, filter, query, showFilter, start, updateUrl } from "./filter.js";
import { GridView } from "./grid_view.js";
import { askName, bindKeys, getReviewer, setClassKeys } from "./keyboard.js";
import { showMatrix } from "./matrix_view.js";
import { explainEmpty, notify, showError, showProgress, updateEstimate } from "./messages.js";
import { showEmpty, showSample } from "./sample_view.js";
import { searchClass, searchId, searchPair } from "./searches.js";

const main = byId("main");
const form = document.querySelector(".filters");
let item = null; // sample of the single view
let page = null; // page of the grid
let busy = false; // verdicts are ignored meanwhile: they could apply to the wrong sample
let queue = Promise.resolve();

const showOverview = (response) => {
  showProgress(response);
  setClassKeys(response.keys);
};

// Runs tasks one after the other, and shows their errors.
const enqueue = (task) => {
  const run = async () => {
    busy = true;
    main.setAttribute("aria-busy", "true");
    showError();
    try {
      await task();
    } catch (error) {
      showError(error.message);
    } finally {
      busy = false;
      main.setAttribute("aria-busy", "false");
    }
  };
  queue = queue.then(run);
  return queue;
};

const preloadImage = ({ items: [next] }) => {
  if (next?.preview.kind === "image") new Image().src = imageUrl(next.row, 1200);
};

const openSample = async (row) => {
  const response = await get(`/api/samples/${row}`, query());
  item = response.item;
  const focused = document.activeElement;
  const focusedKey = focused.closest("main, #actions") && focused.getAttribute("aria-keyshortcuts");
  showSample(main, item, response.position, response.matching, actions);
  if (focusedKey) (document.querySelector(`main [aria-keyshortcuts="${CSS.escape(focusedKey)}"], #actions [aria-keyshortcuts="${CSS.escape(focusedKey)}"]`) ?? main).focus();
  showOverview(response);
  updateUrl({ row });
  get("/api/samples", { ...query(), after: item.place, limit: 1 }).then(preloadImage, () => {});
};

const showNoSamples = (response) => {
  item = null;
  showOverview(response);
  const offers = [];
  if (filter.find) offers.push(["All ids", () => changeFilter({ find: "" })]);
  if (filter.pair) offers.push(["All class pairs", () => changeFilter({ pair: "", names: "" })]);
  if (filter.state !== "any") offers.push(["Any state", () => changeFilter({ state: "any" })]);
  if (!filter.all) offers.push(["Include unflagged labels", () => changeFilter({ all: true })]);
  showEmpty(main, explainEmpty(response.progress, filter), offers);
  updateUrl({});
};

const showPage = (response) => {
  page = response;
  if (response.items.length === 0) return showNoSamples(response);
  grid.show(response);
  showOverview(response);
  updateUrl({ after: response.items[0].place - 1 });
};

const openMatrix = async () => {
  const response = await get("/api/matrix", query());
  if (response.matching === 0) return showNoSamples(response);
  byId("actions").replaceChildren();
  showMatrix(main, response, (pair, names) => {
    changeFilter({ pair, names, view: "grid" }).then(() => page?.items.length && grid.moveFocus(0));
  });
  showOverview(response);
  updateUrl({});
};

// Opens the next sample after a place. With wrap, the first follows the last.
const openNext = async (place, wrap) => {
  let response = await get("/api/samples", { ...query(), after: place, limit: 1 });
  if (response.items.length === 0 && wrap) response = await get("/api/samples", { ...query(), limit: 1 });
  if (response.items.length > 0) await openSample(response.items[0].row);
  else if (response.matching === 0) showNoSamples(response);
  else notify("This is the last sample.");
};

const step = (direction) =>
  enqueue(async () => {
    if (filter.view === "matrix") return main.querySelector(".matrix button[tabindex='0']")?.focus();
    if (filter.view === "grid") {
      if (!page?.items.length) return;
      const range = direction > 0 ? { after: page.items.at(-1).place } : { before: page.items[0].place };
      const response = await get("/api/samples", { ...query(), ...range });
      if (response.items.length > 0) showPage(response);
      else notify(direction > 0 ? "This is the last page." : "This is the first page.");
    } else if (item && direction > 0) await openNext(item.place, false);
    else if (item) {
      const response = await get("/api/samples", { ...query(), before: item.place, limit: 1 });
      if (response.items.length > 0) await openSample(response.items[0].row);
      else notify("This is the first sample.");
    }
  });

// The samples that a verdict applies to.
const targetsOf = { single: () => [item].filter(Boolean), grid: () => (page?.items.length ? grid.targets() : []), matrix: () => [] };

const decide = async (verdict, label = "", isNew = false) => {
  const targets = targetsOf[filter.view]();
  if (busy || targets.length === 0) return;
  const reviewer = await getReviewer();
  if (!reviewer) return;
  await enqueue(async () => {
    const samples = targets.map(({ row, last_entry }) => ({ row, last_entry }));
    const response = await post("/api/decide", query(), { samples, verdict, label, reviewer, add_class: isNew });
    showOverview(response);
    updateEstimate();
    const failed = response.conflicts.length;
    if (failed > 0) showError(`${response.conflicts.slice(0, 3).join(" ")} The current state is shown; decide again if you disagree.`);
    if (filter.view === "grid") {
      grid.update(response.items);
      const saved = samples.length - failed;
      if (saved > 0) notify(`${pluralize(saved, "decision")} saved.`, () => undo(saved));
      return;
    }
    if (failed > 0) return openSample(item.row);
    const { decision } = response.items[0];
    notify(`${item.id}: ${describeVerdict(decision.verdict, decision.label)}.`, () => undo());
    await openNext(item.place, true);
  });
};

const undo = async (times = 1) => {
  const reviewer = await getReviewer();
  if (!reviewer) return;
  await enqueue(async () => {
    for (let time = 0; time < times; time += 1) {
      const response = await post("/api/undo", query(), { reviewer });
      showOverview(response);
      updateEstimate();
      if (!response.undone) return notify("You have no decision to undo.");
      notify(`Undone: ${response.undone.id}, ${describeVerdict(response.undone.verdict, response.undone.label)}.`);
      if (!response.item) continue;
      if (filter.view === "single") await openSample(response.item.row);
      else if (filter.view === "grid" && page?.items.length) grid.update([response.item]);
      else await open();
    }
  });
};

const chooseClass = async () => {
  if (busy || targetsOf[filter.view]().length === 0) return;
  const option = await searchClass(filter.view === "single" ? item.candidates : []);
  if (option) await decide("choose", option.name, option.isNew);
};

// Opens the view from the start of the queue.
const open = async () => {
  page = null;
  if (filter.view === "grid") showPage(await get("/api/samples", query()));
  else if (filter.view === "matrix") await openMatrix();
  else await openNext(0, false);
};

const changeFilter = (values) => {
  Object.assign(filter, values);
  showFilter();
  return enqueue(open);
};

const changeView = (view, row) => {
  const target = row ?? (filter.view === "grid" ? targetsOf.grid()[0]?.row : undefined);
  const place = filter.view === "single" ? item?.place : undefined;
  filter.view = view;
  if (view === "matrix") Object.assign(filter, { pair: "", names: "" });
  showFilter();
  return enqueue(async () => {
    if (view === "single" && target !== undefined) await openSample(target);
    else if (view === "grid" && place) showPage(await get("/api/samples", { ...query(), after: place - 1 }));
    else await open();
    if (view === "grid" && page?.items.length) grid.moveFocus(0);
  });
};

const choosePair = async () => {
  const option = await searchPair();
  if (option) await changeFilter({ pair: option.pair, names: option.name, ...(filter.view === "matrix" && { view: "grid" }) });
};

const findSample = async () => {
  const option = await searchId();
  if (option?.find) await changeFilter({ find: option.find, state: "any", all: true, pair: "", names: "", view: "grid" });
  else if (option) await changeView("single", option.row);
};

const actions = {
  decide,
  choose: chooseClass,
  next: () => step(1),
  previous: () => step(-1),
  open: (row) => changeView("single", row),
};
const grid = new GridView(main, actions);

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", (event) => {
  if (["state", "sort"].includes(event.target.name)) changeFilter({ [event.target.name]: event.target.value });
  else if (event.target.name === "view") changeView(event.target.value);
  else if (event.target.id === "unflagged") changeFilter({ all: event.target.checked });
});
byId("pair").addEventListener("click", choosePair);
byId("clear-pair").addEventListener("click", () => changeFilter({ pair: "", names: "" }).then(() => byId("pair").focus()));
byId("find").addEventListener("click", findSample);
byId("clear-find").addEventListener("click", () => changeFilter({ find: "" }).then(() => byId("find").focus()));
byId("undo").addEventListener("click", () => undo());
const next = (values, value) => values[(values.indexOf(value) + 1) % values.length];
bindKeys(
  {
    a: () => decide(filter.view === "single" && item?.given === item?.proposed ? "keep" : "accept"),
    k: () => decide("keep"),
    d: () => decide("drop"),
    s: () => decide("unsure"),
    c: chooseClass,
    u: () => undo(),
    ArrowLeft: () => (filter.view === "grid" ? grid.moveFocus(0) : step(-1)),
    ArrowRight: () => (filter.view === "grid" ? grid.moveFocus(0) : step(1)),
    "[": () => step(-1),
    "]": () => step(1),
    g: () => changeView(filter.view === "grid" ? "single" : "grid"),
    m: () => changeView("matrix"),
    x: () => filter.view === "grid" && grid.select(grid.focused),
    "*": () => filter.view === "grid" && grid.selectAll(),
    "/": findSample,
    p: choosePair,
    o: () => changeFilter({ state: next(STATES, filter.state) }),
    t: () => changeFilter({ sort: next(SORTS, filter.sort) }),
    f: () => changeFilter({ all: !filter.all }),
    w: askName,
  },
  (name) => decide("choose", name),
);

showFilter();
updateEstimate();
enqueue(async () => {
  if (filter.view === "grid") showPage(await get("/api/samples", { ...query(), after: start.after }));
  else if (filter.view === "single" && Number.isInteger(start.row) && start.row >= 0) await openSample(start.row);
  else await open();
});
