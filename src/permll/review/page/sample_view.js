// View of a single sample: its preview, labels, candidates, neighbors and history.

import { breakable, byId, create, describeVerdict, formatNumber, formatTime, percent, pluralize } from "./dom.js";
import { shortcut } from "./keyboard.js";
import { createPreview } from "./preview.js";

const role = (label, item) => (label === item.given ? "given" : label === item.proposed ? "proposed" : null);

const candidate = (item, { label, probability, key }, decide) => {
  const bar = create("span", { class: "probability-bar" });
  bar.style.setProperty("--probability", probability ?? 0);
  const labelRole = role(label, item) ?? (probability === null ? "added" : null);
  return create(
    "li",
    {},
    create(
      "button",
      { type: "button", class: `candidate ${labelRole ?? ""}`, click: () => decide("choose", label), "aria-keyshortcuts": key ? shortcut(key) : null },
      create("span", { class: "key", "aria-hidden": "true" }, key && create("kbd", {}, key)),
      create("span", { class: "name" }, label, labelRole && [" ", create("small", {}, labelRole)]),
      bar,
      create("span", { class: "probability" }, probability === null ? "" : percent(probability)),
    ),
  );
};

// Narrow screens show the short text; screen readers always read the long one.
export const actionButton = (long, short, key, click, attributes = {}) =>
  create(
    "button",
    { type: "button", click, "aria-keyshortcuts": key, "aria-label": long, ...attributes },
    create("span", { class: "long" }, attributes.content ?? long),
    create("span", { class: "short" }, short),
    create("kbd", { "aria-hidden": "true" }, key),
  );

const withLabel = (verb, label, attributes = {}) => ({ ...attributes, "aria-label": `${verb} “${label}”`, content: [`${verb} `, create("span", { class: "name" }, `“${label}”`)] });

const verdicts = (item, actions) => {
  const same = item.given === item.proposed;
  return create(
    "div",
    { class: "verdicts", role: "group", "aria-label": "Verdict" },
    !same && actionButton("Accept", "Accept", "a", () => actions.decide("accept"), withLabel("Accept", item.proposed, { class: "primary" })),
    actionButton("Keep", "Keep", "k", () => actions.decide("keep"), withLabel("Keep", item.given, { class: same ? "primary" : "" })),
    ...otherVerdicts(actions),
  );
};

export const otherVerdicts = (actions) => [
  actionButton("Another class", "Other", "c", actions.choose),
  actionButton("No class", "No class", "d", () => actions.decide("drop"), { title: "The sample belongs to no class: permll apply leaves it out" }),
  actionButton("Not sure", "Not sure", "s", () => actions.decide("unsure")),
];

const describeEntry = ({ reviewer, verdict, label, at }) => [
  create("b", {}, reviewer),
  `: ${describeVerdict(verdict, label)}, `,
  formatTime(at),
];

const history = ({ history: entries }) =>
  entries.length > 0 &&
  create(
    "details",
    { class: "history" },
    create("summary", {}, `History (${pluralize(entries.length, "entry", "entries")})`),
    create("ol", {}, entries.map((entry) => create("li", {}, describeEntry(entry)))),
  );

const currentDecision = ({ decision, state }) => decision && create("p", { class: `decision ${state}` }, describeEntry(decision));

const labels = (item) =>
  create(
    "p",
    { class: "labels" },
    create("span", { class: "label given-label" }, create("small", {}, "given"), item.given),
    item.given !== item.proposed &&
      create(
        "span",
        { class: "to" },
        create("span", { class: "arrow", "aria-label": "proposed" }, "→"),
        create("span", { class: "label proposed-label" }, create("small", {}, "proposed"), item.proposed),
      ),
  );

const quality = (item) =>
  create(
    "p",
    { class: "quality" },
    "Probability that the given label is right: ",
    create("b", {}, percent(item.quality)),
    item.given === item.proposed ? ". No other class is more probable." : ".",
    item.reason && create("span", { class: "reason" }, `Flagged because ${item.reason.replaceAll("; ", ", and ")}.`),
  );

const currentLabel = ({ decision, given }) => decision?.label ?? given; // "" for no class
const answers = ({ answers: given }) =>
  given.length > 0 &&
  create("p", { class: "answers" }, "Answers: ", given.map(([name, label], index) => [index ? ", " : "", `${name}: `, create("b", {}, label)]).flat());

const related = (heading, note, items, item, open) =>
  items.length > 0 &&
  create(
    "section",
    { class: "related", "aria-label": heading },
    create("h2", {}, heading, create("small", {}, note)),
    create(
      "ul",
      {},
      items.map((other) => {
        const label = currentLabel(other);
        const labelRole = label === item.proposed ? "proposed-label" : label === item.given ? "given-label" : "";
        return create(
          "li",
          {},
          create(
            "button",
            { type: "button", class: "related-sample", title: other.id, click: () => open(other.row) },
            createPreview(other, 160),
            create("span", { class: `name ${labelRole}` }, label || "no class", other.decision && create("small", {}, "decided")),
            create("small", { class: "id" }, breakable(other.id.split("/").at(-1))),
          ),
        );
      }),
    ),
  );

const neighborVotes = (item) => {
  const votes = item.neighbors.map(currentLabel);
  const count = (label) => votes.filter((vote) => vote === label).length;
  const given = `${count(item.given)} of ${votes.length} have the given label`;
  return item.given === item.proposed ? given : `${given}, ${count(item.proposed)} the proposed one`;
};

export const showSample = (main, item, position, matching, actions) => {
  const where = position === null ? "does not match the filter" : `${formatNumber(position)} of ${formatNumber(matching)}`;
  main.replaceChildren(
    create(
      "article",
      { class: "sample", "aria-label": `Sample ${item.id}` },
      create(
        "div",
        { class: "sample-data" },
        create("figure", {}, createPreview(item, 1200), create("figcaption", {}, "id ", create("code", {}, breakable(item.id)))),
        related("Exact duplicates", "identical in every bit", item.duplicates, item, actions.open),
        related("Nearest neighbors", neighborVotes(item), item.neighbors, item, actions.open),
      ),
      create(
        "div",
        { class: "panel" },
        create(
          "nav",
          { class: "steps", "aria-label": "Samples" },
          create("button", { type: "button", click: actions.previous, "aria-keyshortcuts": "ArrowLeft", "aria-label": "Previous" }, "←"),
          create("span", {}, where),
          create("button", { type: "button", click: actions.next, "aria-keyshortcuts": "ArrowRight", "aria-label": "Next" }, "→"),
        ),
        labels(item),
        quality(item),
        answers(item),
        currentDecision(item),
        create("div", { id: "panel-actions" }),
        create("h2", { class: "candidates-heading" }, "Candidates"),
        create("ol", { class: "candidates" }, item.candidates.map((entry) => candidate(item, entry, actions.decide))),
        history(item),
      ),
    ),
  );
  byId("actions").replaceChildren(verdicts(item, actions));
  placeVerdicts();
};

// On narrow screens the verdicts are at the bottom of the window, beside the labels on wide ones.
const narrow = matchMedia("(max-width: 60rem)");
const placeVerdicts = () => {
  const group = document.querySelector(".verdicts");
  const target = narrow.matches ? byId("actions") : byId("panel-actions");
  if (group && target && group.parentElement !== target) target.append(group);
};
narrow.addEventListener("change", placeVerdicts);

export const showEmpty = (main, { heading, text }, actions) => {
  byId("actions").replaceChildren();
  main.replaceChildren(
    create(
      "section",
      { class: "empty" },
      create("h2", {}, heading),
      create("p", {}, text),
      create(
        "p",
        { class: "buttons" },
        actions.map(([label, click]) => create("button", { type: "button", click }, label)),
      ),
    ),
  );
};
