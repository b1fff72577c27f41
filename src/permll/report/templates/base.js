"use strict";

// Sorting: every marked heading becomes a button. Cells without a value stay last in both directions.
const cellValue = (row, column) => {
  const cell = row.cells[column];
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  const text = cell.textContent.trim();
  return text === "-" || text === "" ? null : text;
};

const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));

const sortBy = (heading) => {
  const table = heading.closest("table");
  const ascending =
    heading.getAttribute("aria-sort") === "descending" || (!heading.hasAttribute("aria-sort") && heading.cellIndex === 0);
  for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [cellValue(row, heading.cellIndex), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return ascending ? compare(a, b) : compare(b, a);
  });
  body.append(...rows.map(([, row]) => row));
};

for (const heading of document.querySelectorAll("table.sortable th[data-sort]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = heading.textContent;
  button.addEventListener("click", () => sortBy(heading));
  heading.replaceChildren(button);
}

// Copying. If the browser denies clipboard access, as for local files, the command is selected instead.
const copy = async (button) => {
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code);
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
};

document.addEventListener("click", (event) => {
  if (event.target.matches("button.copy")) copy(event.target);
});

// Print everything expanded.
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
