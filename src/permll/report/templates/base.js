"use strict";

// Sorting: every head that is marked becomes a button. Cells without a number stay last in both directions.
const value = (row, place) => {
  const cell = row.cells[place];
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  const text = cell.textContent.trim();
  return text === "-" || text === "" ? null : text;
};

const compare = (one, other) =>
  typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));

const sort = (head) => {
  const table = head.closest("table");
  const ascending = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && head.cellIndex === 0);
  for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [value(row, head.cellIndex), row]);
  rows.sort(([one], [other]) => {
    if (one === null || other === null) return (one === null) - (other === null);
    return ascending ? compare(one, other) : compare(other, one);
  });
  body.append(...rows.map(([, row]) => row));
};

for (const head of document.querySelectorAll("table.sortable th[data-sort]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  button.addEventListener("click", () => sort(head));
  head.replaceChildren(button);
}

// Copying; where the browser refuses its clipboard to files, the command is selected instead.
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

// On paper nothing can be opened.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
