// View of a single sample: its preview, labels, candidates, neighbors and history.

import { create, describeVerdict, formatNumber, formatTime, percent, pluralize } from "./dom.js";
import { createPreview } from "./preview.js";

const role = (label, item) => (label === item.given ? "given" : label === item.proposed ? "proposed" : null);

const candidate = (item, { label, probability }, index, decide) => {
  const bar = create("span", { class: "probability-bar" });
  bar.style.setProperty("--probability", probability);
  const labelRole = role(label, item);
  return create(
    "li",
    {},
    create(
      "button",
      { type: "button", class: `candidate ${labelRole ?? ""}`, click: () => decide("choose", label), "aria-keyshortcuts": index < 9 ? index + 1 : null },
      create("span", { class: "key", "aria-hidden": "true" }, index < 9 ? index + 1 : ""),
      create("span", { class: "name" }, label, labelRole && create("small", {}, labelRole)),
      bar,
      create("span", { class: "probability" }, percent(probability)),
    ),
  );
};

const button = (text, key, click, attributes = {}) =>
  create("button", { type: "button", click, "aria-keyshortcuts": key, ...attributes }, create("span", {}, text), create("kbd", { "aria-hidden": "true" }, key));

const withLabel = (verb, label) => [`${verb} `, create("span", { class: "name" }, `“${label}”`)];

const verdicts = (item, actions) => {
  const same = item.given === item.proposed;
  return create(
    "div",
    { class: "verdicts", role: "group", "aria-label": "Verdict" },
    !same && button(withLabel("Accept", item.proposed), "a", () => actions.decide("accept"), { class: "primary" }),
    button(withLabel("Keep", item.given), "k", () => actions.decide("keep"), { class: same ? "primary" : "" }),
    button("Another class", "c", actions.choose),
    button("Not sure", "s", () => actions.decide("unsure")),
  );
};

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
        const label = other.decision?.label ?? other.given;
        const labelRole = label === item.proposed ? "proposed-label" : label === item.given ? "given-label" : "";
        return create(
          "li",
          {},
          create(
            "button",
            { type: "button", class: "related-sample", title: other.id, click: () => open(other.row) },
            createPreview(other, 160),
            create("span", { class: `name ${labelRole}` }, label, other.decision && create("small", {}, "decided")),
          ),
        );
      }),
    ),
  );

const neighborVotes = (item) => {
  const votes = item.neighbors.map((neighbor) => neighbor.decision?.label ?? neighbor.given);
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
        create("figure", {}, createPreview(item, 1200), create("figcaption", {}, "id ", create("code", {}, item.id))),
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
        verdicts(item, actions),
        create("h2", { class: "candidates-heading" }, "Candidates"),
        create("ol", { class: "candidates" }, item.candidates.map((entry, index) => candidate(item, entry, index, actions.decide))),
        history(item),
      ),
    ),
  );
};

export const showEmpty = (main, { heading, text }, actions) => {
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
