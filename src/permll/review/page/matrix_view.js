// Matrix of given and proposed classes. Each number opens its samples.

import { create, formatNumber, pluralize } from "./dom.js";

const cellButton = ({ given, proposed, pair, count }, classes, highest, open) => {
  const names = `${classes[given]} → ${classes[proposed]}`;
  const button = create(
    "button",
    { type: "button", tabindex: -1, "aria-label": `${names}: ${pluralize(count, "sample")}`, "data-row": given, "data-column": proposed, click: () => open(pair, names) },
    formatNumber(count),
  );
  if (given !== proposed) button.style.setProperty("--fraction", count / highest);
  return button;
};

// Arrow keys move between numbers: in a row, or to the nearest one of the next row that has any.
const onKey = (event) => {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  if (!(event.key in steps) || event.target.tagName !== "BUTTON") return;
  const [rows, columns] = steps[event.key];
  const at = ({ dataset }) => [Number(dataset.row), Number(dataset.column)];
  const [row, column] = at(event.target);
  const distance = (button) => {
    const [down, right] = [at(button)[0] - row, at(button)[1] - column];
    if (rows === 0) return down === 0 && right * columns > 0 ? Math.abs(right) : Infinity;
    return down * rows > 0 ? Math.abs(down) * 1000 + Math.abs(right) : Infinity;
  };
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  const nearest = buttons.reduce((best, button) => (distance(button) < distance(best) ? button : best));
  if (distance(nearest) < Infinity) nearest.focus();
  event.preventDefault();
  event.stopPropagation();
};

const describe = ({ classes, cells, matching, num_classes }) => {
  const shown = cells.reduce((sum, { count }) => sum + count, 0);
  const all = "Number of samples by given class (row) and proposed class (column). Choose a number to see its samples.";
  if (classes.length === num_classes) return all;
  const rest = `The ${classes.length} of ${formatNumber(num_classes)} classes with most of them are shown, with ${formatNumber(shown)} of ${pluralize(matching, "sample")}; the class pairs above list the others.`;
  return `${all} ${rest}`;
};

export const showMatrix = (main, matrix, open) => {
  const { classes, cells } = matrix;
  const highest = Math.max(1, ...cells.filter(({ given, proposed }) => given !== proposed).map(({ count }) => count));
  const buttons = new Map(cells.map((cell) => [`${cell.given}-${cell.proposed}`, cellButton(cell, classes, highest, open)]));
  const heading = (scope) => (name) => create("th", { scope, title: name }, create("span", {}, name));
  const columns = classes.map(heading("col"));
  const rows = classes.map((name, row) =>
    create("tr", {}, heading("row")(name), classes.map((_, column) => create("td", { class: row === column ? "diagonal" : null }, buttons.get(`${row}-${column}`) ?? ""))),
  );
  const setFocused = ({ target }) => {
    if (target.tagName !== "BUTTON") return;
    for (const button of buttons.values()) button.tabIndex = button === target ? 0 : -1;
  };
  main.replaceChildren(
    create(
      "figure",
      { class: "matrix" },
      create("figcaption", { id: "matrix-caption" }, describe(matrix)),
      create(
        "div",
        { class: "scroll", role: "region", "aria-labelledby": "matrix-caption", keydown: onKey, focusin: setFocused },
        create("table", { "aria-labelledby": "matrix-caption" }, create("thead", {}, create("tr", {}, create("td", {}, "given ↓ ", create("span", {}, "proposed →")), columns)), create("tbody", {}, rows)),
      ),
    ),
  );
  const first = main.querySelector(".matrix button");
  if (first) first.tabIndex = 0;
};
