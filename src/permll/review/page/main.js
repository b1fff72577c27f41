// The review: what is shown, what is decided, and where one is. The address bar knows all of it, so a reload loses nothing.

import { chooseFrom } from "./choosing.js";
import { Grid } from "./grid.js";
import { askName, bindKeys, whoDecides } from "./keys.js";
import { count, find, percent, said } from "./making.js";
import { showNothing, showOne } from "./one.js";
import { get, picture, post } from "./server.js";
import { complain, showFilters, showProgress, tell, whyNothing } from "./telling.js";

const main = find("main");
const filters = document.querySelector(".filters");
const at = new URLSearchParams(location.search);
const STATES = ["open", "decided", "unsure", "any"];
const wish = {
  state: STATES.includes(at.get("state")) ? at.get("state") : "open",
  all: at.get("all") === "1",
  pair: at.get("pair") ?? "",
  names: at.get("names") ?? "",
  view: at.get("view") === "grid" ? "grid" : "one",
};
let item = null; // the one that is shown alone
let page = null; // or the page of the grid
let busy = false; // a verdict meanwhile would go to the wrong sample, so it is not taken
let turn = Promise.resolve();

const query = () => ({ state: wish.state, all: wish.all ? "1" : "0", ...(wish.pair && { pair: wish.pair }) });

const note = () => {
  const where = new URLSearchParams(query());
  if (wish.pair) where.set("names", wish.names);
  if (wish.view === "grid") where.set("view", "grid");
  if (wish.view === "one" && item) where.set("row", item.row);
  if (wish.view === "grid" && page?.items.length) where.set("after", page.items[0].rank - 1);
  history.replaceState(null, "", `/?${where}`);
};

// Only one thing at a time, in the order of asking.
const carefully = (work) => {
  const doing = async () => {
    busy = true;
    main.setAttribute("aria-busy", "true");
    try {
      await work();
    } catch (problem) {
      complain(problem.message);
    } finally {
      busy = false;
      main.setAttribute("aria-busy", "false");
    }
  };
  turn = turn.then(doing);
  return turn;
};

const present = (answer) => {
  item = answer.item;
  const held = main.contains(document.activeElement) && document.activeElement.getAttribute("aria-keyshortcuts");
  showOne(main, item, answer.place, answer.matching, actions);
  if (held) (main.querySelector(`[aria-keyshortcuts="${CSS.escape(held)}"]`) ?? main).focus();
  showProgress(answer);
  note();
};

const fetchPicture = ({ items: [next] }) => {
  if (next?.look.kind === "image") new Image().src = picture(next.row, 1200); // is there when it is needed
};

const open = async (row) => {
  present(await get(`/api/sample/${row}`, query()));
  get("/api/list", { ...query(), after: item.rank, limit: 1 }).then(fetchPicture, () => {});
};

const finished = (answer) => {
  item = null;
  showProgress(answer);
  const offers = [];
  if (wish.pair) offers.push(["Every pair of classes", () => change({ pair: "", names: "" })]);
  if (wish.state !== "any") offers.push(["Any state", () => change({ state: "any" })]);
  if (!wish.all) offers.push(["Also labels that are not suspect", () => change({ all: true })]);
  showNothing(main, whyNothing(answer.progress, wish), offers);
  note();
};

const showPage = (answer) => {
  page = answer;
  if (answer.items.length === 0) return finished(answer);
  grid.show(answer);
  showProgress(answer);
  note();
};

// The next one after a rank; after the last one the first again, if it was passed over.
const goOn = async (rank, around) => {
  let answer = await get("/api/list", { ...query(), after: rank, limit: 1 });
  if (answer.items.length === 0 && around) answer = await get("/api/list", { ...query(), limit: 1 });
  if (answer.items.length > 0) await open(answer.items[0].row);
  else if (answer.matching === 0) finished(answer);
  else tell("This is the last one.");
};

const step = (direction) =>
  carefully(async () => {
    complain();
    if (wish.view === "grid") {
      if (!page?.items.length) return;
      const where = direction > 0 ? { after: page.items.at(-1).rank } : { before: page.items[0].rank };
      const answer = await get("/api/list", { ...query(), ...where });
      if (answer.items.length > 0) showPage(answer);
      else tell(direction > 0 ? "This is the last page." : "This is the first page.");
    } else if (item && direction > 0) await goOn(item.rank, false);
    else if (item) {
      const answer = await get("/api/list", { ...query(), before: item.rank, limit: 1 });
      if (answer.items.length > 0) await open(answer.items[0].row);
      else tell("This is the first one.");
    }
  });

const decide = async (verdict, label = "") => {
  const chosen = wish.view === "grid" ? grid.chosen() : [item].filter(Boolean);
  if (busy || chosen.length === 0) return;
  const reviewer = await whoDecides();
  if (!reviewer) return;
  await carefully(async () => {
    complain();
    const samples = chosen.map(({ row, seen }) => ({ row, seen }));
    const answer = await post("/api/decide", query(), { samples, verdict, label, reviewer });
    showProgress(answer);
    const failed = answer.conflicts.length;
    if (failed > 0) complain(`${answer.conflicts.slice(0, 3).join(" ")} What you see now is how it stands: decide again if you see it differently.`);
    if (wish.view === "grid") {
      grid.update(answer.items);
      if (samples.length > failed) tell(`${count(samples.length - failed, "decision")} kept.`, () => undo(samples.length - failed));
      return;
    }
    if (failed > 0) return open(item.row);
    const { decision } = answer.items[0];
    tell(`${item.id}: ${said(decision.verdict, decision.label)}.`, () => undo());
    await goOn(item.rank, true);
  });
};

const undo = async (times = 1) => {
  const reviewer = await whoDecides();
  if (!reviewer) return;
  await carefully(async () => {
    complain();
    for (let time = 0; time < times; time += 1) {
      const answer = await post("/api/undo", query(), { reviewer });
      showProgress(answer);
      if (!answer.undone) return tell("You have no decision to take back.");
      tell(`Taken back: ${answer.undone.id}, ${said(answer.undone.verdict, answer.undone.label)}.`);
      if (!answer.item) continue;
      if (wish.view === "one") await open(answer.item.row);
      else grid.update([answer.item]);
    }
  });
};

const choose = async () => {
  if (busy || (wish.view === "one" ? !item : grid.chosen().length === 0)) return;
  const likely = wish.view === "one" ? Object.fromEntries(item.candidates.map(({ label, chance }) => [label, chance])) : {};
  const chosen = await chooseFrom("Which class is it?", async (text) => {
    const { classes } = await get("/api/classes", { query: text });
    return classes
      .map((name) => ({ name, note: name in likely ? percent(likely[name]) : "", chance: likely[name] ?? -1 }))
      .sort((one, other) => other.chance - one.chance);
  });
  if (chosen) await decide("choose", chosen.name);
};

const change = (values) => {
  Object.assign(wish, values);
  showFilters(wish);
  return carefully(async () => {
    complain();
    page = null;
    if (wish.view === "grid") showPage(await get("/api/list", query()));
    else await goOn(0, false);
  });
};

const changeView = (view, row) => {
  const from = row ?? (wish.view === "grid" ? grid.chosen()[0]?.row : undefined);
  const rank = item?.rank;
  wish.view = view;
  showFilters(wish);
  return carefully(async () => {
    complain();
    if (view === "one") await (from === undefined ? goOn(0, false) : open(from));
    else showPage(await get("/api/list", { ...query(), after: rank ? rank - 1 : 0 }));
    if (view === "grid") grid.step(0);
  });
};

const choosePair = async () => {
  const pair = await chooseFrom("Given → proposed", async (text) => {
    const { pairs } = await get("/api/pairs", { ...query(), query: text });
    return pairs.map((one) => ({ ...one, name: `${one.given} → ${one.proposed}`, note: `${one.open.toLocaleString("en")} open of ${one.count.toLocaleString("en")}` }));
  });
  if (pair) await change({ pair: pair.pair, names: pair.name });
};

const actions = {
  decide,
  choose,
  next: () => step(1),
  previous: () => step(-1),
  open: (row) => changeView("one", row),
};
const grid = new Grid(main, actions);

filters.addEventListener("submit", (event) => event.preventDefault());
filters.addEventListener("change", (event) => {
  if (event.target.name === "state") change({ state: event.target.value });
  else if (event.target.name === "view") changeView(event.target.value);
  else if (event.target.id === "everything") change({ all: event.target.checked });
});
find("pair").addEventListener("click", choosePair);
find("no-pair").addEventListener("click", () => change({ pair: "", names: "" }).then(() => find("pair").focus()));
find("undo").addEventListener("click", () => undo());
bindKeys({
  a: () => decide(wish.view === "one" && item?.given === item?.proposed ? "keep" : "accept"),
  k: () => decide("keep"),
  s: () => decide("unsure"),
  c: choose,
  u: () => undo(),
  digit: (key) => wish.view === "one" && item?.candidates[key - 1] && decide("choose", item.candidates[key - 1].label),
  ArrowLeft: () => (wish.view === "one" ? step(-1) : grid.step(0)),
  ArrowRight: () => (wish.view === "one" ? step(1) : grid.step(0)),
  "[": () => step(-1),
  "]": () => step(1),
  g: () => changeView(wish.view === "one" ? "grid" : "one"),
  x: () => wish.view === "grid" && grid.select(grid.focused),
  "*": () => wish.view === "grid" && grid.selectAll(),
  p: choosePair,
  o: () => change({ state: STATES[(STATES.indexOf(wish.state) + 1) % STATES.length] }),
  f: () => change({ all: !wish.all }),
  w: askName,
});

showFilters(wish);
carefully(async () => {
  const row = Number(at.get("row") ?? NaN);
  if (wish.view === "grid") showPage(await get("/api/list", { ...query(), after: Number(at.get("after")) || 0 }));
  else if (Number.isInteger(row) && row >= 0) await open(row);
  else await goOn(0, false);
});
