// One sample, alone, with all that helps to decide.

import { count, make, percent, said, when } from "./making.js";
import { look } from "./samples.js";

const tag = (label, item) =>
  label === item.given ? "given" : label === item.proposed ? "proposed" : null;

const candidate = (item, { label, chance }, place, decide) => {
  const bar = make("span", { class: "chance-bar" });
  bar.style.setProperty("--share", chance);
  const what = tag(label, item);
  return make(
    "li",
    {},
    make(
      "button",
      { type: "button", class: `candidate ${what ?? ""}`, click: () => decide("choose", label), "aria-keyshortcuts": place < 9 ? place + 1 : null },
      make("span", { class: "key", "aria-hidden": "true" }, place < 9 ? place + 1 : ""),
      make("span", { class: "name" }, label, what && make("small", {}, what)),
      bar,
      make("span", { class: "chance" }, percent(chance)),
    ),
  );
};

const button = (text, key, click, attributes = {}) =>
  make("button", { type: "button", click, "aria-keyshortcuts": key, ...attributes }, make("span", {}, text), make("kbd", { "aria-hidden": "true" }, key));

const named = (verb, label) => [`${verb} `, make("span", { class: "name" }, `“${label}”`)];

const verdicts = (item, actions) => {
  const same = item.given === item.proposed;
  return make(
    "div",
    { class: "verdicts", role: "group", "aria-label": "Verdict" },
    !same && button(named("Accept", item.proposed), "a", () => actions.decide("accept"), { class: "first" }),
    button(named("Keep", item.given), "k", () => actions.decide("keep"), { class: same ? "first" : "" }),
    button("Another class", "c", actions.choose),
    button("Not sure", "s", () => actions.decide("unsure")),
  );
};

const story = (item) => {
  if (item.history.length === 0) return null;
  const entries = item.history.map((entry) =>
    make("li", {}, make("b", {}, entry.reviewer), ` ${said(entry.verdict, entry.label)}, `, when(entry.at)),
  );
  return make("details", { class: "story" }, make("summary", {}, `${count(entries.length, "entry", "entries")} in the log`), make("ol", {}, entries));
};

const standing = ({ decision, state }) =>
  decision &&
  make(
    "p",
    { class: `standing ${state}` },
    make("b", {}, decision.reviewer),
    ` ${said(decision.verdict, decision.label)}, `,
    when(decision.at),
  );

const judged = (item) =>
  make(
    "p",
    { class: "judged" },
    make("span", { class: "label was" }, make("small", {}, "given"), item.given),
    item.given !== item.proposed &&
      make(
        "span",
        { class: "to" },
        make("span", { class: "arrow", "aria-label": "proposed" }, "→"),
        make("span", { class: "label now" }, make("small", {}, "proposed"), item.proposed),
      ),
  );

const belief = (item) =>
  make(
    "p",
    { class: "belief" },
    "Chance that the given label is right: ",
    make("b", {}, percent(item.quality)),
    item.given === item.proposed && ". No other is more probable",
    ".",
    item.reason && make("span", { class: "reason" }, `Suspect because ${item.reason.replaceAll("; ", ", and ")}.`),
  );

const nearby = (head, words, items, item, open) =>
  items.length > 0 &&
  make(
    "section",
    { class: "nearby", "aria-label": head },
    make("h2", {}, head, make("small", {}, words)),
    make(
      "ul",
      {},
      items.map((near) => {
        const label = near.decision?.label ?? near.given;
        const kind = label === item.proposed ? "like-proposed" : label === item.given ? "like-given" : "";
        return make(
          "li",
          {},
          make(
            "button",
            { type: "button", class: "near", title: near.id, click: () => open(near.row) },
            look(near, 160),
            make("span", { class: `name ${kind}` }, label, near.decision && make("small", {}, "decided")),
          ),
        );
      }),
    ),
  );

const votes = (item) => {
  const labels = item.neighbors.map((near) => near.decision?.label ?? near.given);
  const share = (label) => labels.filter((one) => one === label).length;
  const given = `${share(item.given)} of ${labels.length} as given`;
  return item.given === item.proposed ? given : `${given}, ${share(item.proposed)} as proposed`;
};

export const showOne = (main, item, place, matching, actions) => {
  main.replaceChildren(
    make(
      "article",
      { class: "one", "aria-label": `Sample ${item.id}` },
      make(
        "div",
        { class: "seen" },
        make("figure", {}, look(item, 1200), make("figcaption", {}, "id ", make("code", {}, item.id))),
        nearby("Exact duplicates", "the same to the last bit", item.duplicates, item, actions.open),
        nearby("Nearest samples", votes(item), item.neighbors, item, actions.open),
      ),
      make(
        "div",
        { class: "panel" },
        make(
          "nav",
          { class: "steps", "aria-label": "Samples" },
          make("button", { type: "button", click: actions.previous, "aria-keyshortcuts": "ArrowLeft", "aria-label": "Previous" }, "←"),
          make("span", {}, place === null ? `not among the ${matching.toLocaleString("en")} listed` : `${place.toLocaleString("en")} of ${matching.toLocaleString("en")}`),
          make("button", { type: "button", click: actions.next, "aria-keyshortcuts": "ArrowRight", "aria-label": "Next" }, "→"),
        ),
        judged(item),
        belief(item),
        standing(item),
        verdicts(item, actions),
        make("h2", { class: "over" }, "What it may be"),
        make("ol", { class: "candidates" }, item.candidates.map((one, number) => candidate(item, one, number, actions.decide))),
        story(item),
      ),
    ),
  );
};

export const showNothing = (main, words, actions) => {
  main.replaceChildren(
    make(
      "section",
      { class: "nothing" },
      make("h2", {}, words.head),
      make("p", {}, words.text),
      make(
        "p",
        { class: "buttons" },
        actions.map(([text, click]) => make("button", { type: "button", click }, text)),
      ),
    ),
  );
};
