// Review page: filter, navigation and decisions. The URL holds the filter and the position, so a reload loses nothing.

import { get, imageUrl, post } from "./api.js";
import { byId, describeVerdict, formatNumber, percent, pluralize } from "./dom.js";
import { GridView } from "./grid_view.js";
import { askName, bindKeys, getReviewer } from "./keyboard.js";
import { explainEmpty, notify, showError, showFilter, showProgress } from "./messages.js";
import { pick } from "./picker.js";
import { showEmpty, showSample } from "./sample_view.js";

const main = byId("main");
const form = document.querySelector(".filters");
const params = new URLSearchParams(location.search);
const STATES = ["open", "decided", "unsure", "any"];
const filter = {
  state: STATES.includes(params.get("state")) ? params.get("state") : "open",
  all: params.get("all") === "1",
  pair: params.get("pair") ?? "",
  names: params.get("names") ?? "",
  view: params.get("view") === "grid" ? "grid" : "single",
};
let item = null; // sample of the single view
let page = null; // page of the grid
let busy = false; // verdicts are ignored meanwhile: they could apply to the wrong sample
let queue = Promise.resolve();

const query = () => ({ state: filter.state, all: filter.all ? "1" : "0", ...(filter.pair && { pair: filter.pair }) });

const updateUrl = () => {
  const url = new URLSearchParams(query());
  if (filter.pair) url.set("names", filter.names);
  if (filter.view === "grid") url.set("view", "grid");
  if (filter.view === "single" && item) url.set("row", item.row);
  if (filter.view === "grid" && page?.items.length) url.set("after", page.items[0].rank - 1);
  history.replaceState(null, "", `/?${url}`);
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
  const focusedKey = main.contains(document.activeElement) && document.activeElement.getAttribute("aria-keyshortcuts");
  showSample(main, item, response.position, response.matching, actions);
  if (focusedKey) (main.querySelector(`[aria-keyshortcuts="${CSS.escape(focusedKey)}"]`) ?? main).focus();
  showProgress(response);
  updateUrl();
  get("/api/samples", { ...query(), after: item.rank, limit: 1 }).then(preloadImage, () => {});
};

const showNoSamples = (response) => {
  item = null;
  showProgress(response);
  const offers = [];
  if (filter.pair) offers.push(["All class pairs", () => changeFilter({ pair: "", names: "" })]);
  if (filter.state !== "any") offers.push(["Any state", () => changeFilter({ state: "any" })]);
  if (!filter.all) offers.push(["Include unflagged labels", () => changeFilter({ all: true })]);
  showEmpty(main, explainEmpty(response.progress, filter), offers);
  updateUrl();
};

const showPage = (response) => {
  page = response;
  if (response.items.length === 0) return showNoSamples(response);
  grid.show(response);
  showProgress(response);
  updateUrl();
};

// Opens the next sample after a rank. With wrap, the first follows the last.
const openNext = async (rank, wrap) => {
  let response = await get("/api/samples", { ...query(), after: rank, limit: 1 });
  if (response.items.length === 0 && wrap) response = await get("/api/samples", { ...query(), limit: 1 });
  if (response.items.length > 0) await openSample(response.items[0].row);
  else if (response.matching === 0) showNoSamples(response);
  else notify("This is the last sample.");
};

const step = (direction) =>
  enqueue(async () => {
    if (filter.view === "grid") {
      if (!page?.items.length) return;
      const range = direction > 0 ? { after: page.items.at(-1).rank } : { before: page.items[0].rank };
      const response = await get("/api/samples", { ...query(), ...range });
      if (response.items.length > 0) showPage(response);
      else notify(direction > 0 ? "This is the last page." : "This is the first page.");
    } else if (item && direction > 0) await openNext(item.rank, false);
    else if (item) {
      const response = await get("/api/samples", { ...query(), before: item.rank, limit: 1 });
      if (response.items.length > 0) await openSample(response.items[0].row);
      else notify("This is the first sample.");
    }
  });

const decide = async (verdict, label = "") => {
  const targets = filter.view === "grid" ? grid.targets() : [item].filter(Boolean);
  if (busy || targets.length === 0) return;
  const reviewer = await getReviewer();
  if (!reviewer) return;
  await enqueue(async () => {
    const samples = targets.map(({ row, last_entry }) => ({ row, last_entry }));
    const response = await post("/api/decide", query(), { samples, verdict, label, reviewer });
    showProgress(response);
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
    await openNext(item.rank, true);
  });
};

const undo = async (times = 1) => {
  const reviewer = await getReviewer();
  if (!reviewer) return;
  await enqueue(async () => {
    for (let time = 0; time < times; time += 1) {
      const response = await post("/api/undo", query(), { reviewer });
      showProgress(response);
      if (!response.undone) return notify("You have no decision to undo.");
      notify(`Undone: ${response.undone.id}, ${describeVerdict(response.undone.verdict, response.undone.label)}.`);
      if (!response.item) continue;
      if (filter.view === "single") await openSample(response.item.row);
      else grid.update([response.item]);
    }
  });
};

const chooseClass = async () => {
  if (busy || (filter.view === "single" ? !item : grid.targets().length === 0)) return;
  const candidates = filter.view === "single" ? item.candidates : [];
  const probabilities = Object.fromEntries(candidates.map(({ label, probability }) => [label, probability]));
  const option = await pick("Choose a class", async (text) => {
    const { classes } = await get("/api/classes", { query: text });
    return classes
      .map((name) => ({ name, note: name in probabilities ? percent(probabilities[name]) : "", probability: probabilities[name] ?? -1 }))
      .sort((a, b) => b.probability - a.probability);
  });
  if (option) await decide("choose", option.name);
};

const changeFilter = (values) => {
  Object.assign(filter, values);
  showFilter(filter);
  return enqueue(async () => {
    page = null;
    if (filter.view === "grid") showPage(await get("/api/samples", query()));
    else await openNext(0, false);
  });
};

const changeView = (view, row) => {
  const target = row ?? (filter.view === "grid" ? grid.targets()[0]?.row : undefined);
  const rank = item?.rank;
  filter.view = view;
  showFilter(filter);
  return enqueue(async () => {
    if (view === "single") await (target === undefined ? openNext(0, false) : openSample(target));
    else showPage(await get("/api/samples", { ...query(), after: rank ? rank - 1 : 0 }));
    if (view === "grid") grid.moveFocus(0);
  });
};

const choosePair = async () => {
  const option = await pick("Given → proposed", async (text) => {
    const { pairs } = await get("/api/pairs", { ...query(), query: text });
    return pairs.map((pair) => ({ ...pair, name: `${pair.given} → ${pair.proposed}`, note: `${formatNumber(pair.open)} open of ${formatNumber(pair.count)}` }));
  });
  if (option) await changeFilter({ pair: option.pair, names: option.name });
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
  if (event.target.name === "state") changeFilter({ state: event.target.value });
  else if (event.target.name === "view") changeView(event.target.value);
  else if (event.target.id === "unflagged") changeFilter({ all: event.target.checked });
});
byId("pair").addEventListener("click", choosePair);
byId("clear-pair").addEventListener("click", () => changeFilter({ pair: "", names: "" }).then(() => byId("pair").focus()));
byId("undo").addEventListener("click", () => undo());
bindKeys({
  a: () => decide(filter.view === "single" && item?.given === item?.proposed ? "keep" : "accept"),
  k: () => decide("keep"),
  s: () => decide("unsure"),
  c: chooseClass,
  u: () => undo(),
  digit: (key) => filter.view === "single" && item?.candidates[key - 1] && decide("choose", item.candidates[key - 1].label),
  ArrowLeft: () => (filter.view === "single" ? step(-1) : grid.moveFocus(0)),
  ArrowRight: () => (filter.view === "single" ? step(1) : grid.moveFocus(0)),
  "[": () => step(-1),
  "]": () => step(1),
  g: () => changeView(filter.view === "single" ? "grid" : "single"),
  x: () => filter.view === "grid" && grid.select(grid.focused),
  "*": () => filter.view === "grid" && grid.selectAll(),
  p: choosePair,
  o: () => changeFilter({ state: STATES[(STATES.indexOf(filter.state) + 1) % STATES.length] }),
  f: () => changeFilter({ all: !filter.all }),
  w: askName,
});

showFilter(filter);
enqueue(async () => {
  const row = Number(params.get("row") ?? NaN);
  if (filter.view === "grid") showPage(await get("/api/samples", { ...query(), after: Number(params.get("after")) || 0 }));
  else if (Number.isInteger(row) && row >= 0) await openSample(row);
  else await openNext(0, false);
});
