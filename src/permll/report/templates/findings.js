
// Filter cards by pair of classes and by words in id or classes. Cards with data-more are shown only if they match a filter.
const form = document.querySelector(".filter");
const cards = [...document.querySelectorAll(".card")];
const cells = [...document.querySelectorAll("td[data-pair]")];

const filterCards = () => {
  const { pair, words } = form.elements;
  const query = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  const filtered = Boolean(pair.value || query.length);
  let shown = 0;
  for (const card of cards) {
    const matches = (filtered || card.dataset.more === undefined) && (!pair.value || card.dataset.pair === pair.value) && query.every((word) => card.dataset.words.includes(word));
    card.hidden = !matches;
    shown += matches;
  }
  for (const cell of cells) cell.firstElementChild.setAttribute("aria-pressed", cell.dataset.pair === pair.value);
  form.querySelector("button").disabled = !filtered;
  const flagged = pair.value ? Number(pair.selectedOptions[0].dataset.flagged) : 0;
  const all = flagged > shown ? `${shown} of ${flagged} flagged labels` : `${shown} flagged`;
  document.getElementById("filtered").textContent = filtered ? (pair.value && !query.length ? all : `${shown} found`) : "";
};

for (const cell of cells) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = cell.textContent;
  button.setAttribute("aria-label", cell.title);
  button.addEventListener("click", () => {
    const { pair, words } = form.elements;
    pair.value = pair.value === cell.dataset.pair ? "" : cell.dataset.pair;
    words.value = "";
    filterCards();
    if (pair.value) document.getElementById("issues").scrollIntoView();
  });
  cell.replaceChildren(button);
}

if (form) {
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filterCards));
  form.addEventListener("input", filterCards);
  filterCards();
}
for (const element of document.querySelectorAll(".copy, .hint")) element.hidden = false;

// Commands wrap between words only, not after a hyphen inside an option.
for (const code of document.querySelectorAll(".next code")) {
  const parts = code.textContent.split(/( +)/).map((text, index) => {
    if (index % 2) return text;
    const word = document.createElement("span");
    word.textContent = text;
    return word;
  });
  code.replaceChildren(...parts);
}

// Tables wider than the page show on which side columns are hidden.
const markSides = (box) => {
  box.classList.toggle("more-left", box.scrollLeft > 1);
  box.classList.toggle("more-right", box.scrollWidth - box.clientWidth - box.scrollLeft > 1);
};
const observer = new ResizeObserver((changes) => changes.forEach(({ target }) => markSides(target)));
for (const box of document.querySelectorAll(".scroll")) {
  observer.observe(box);
  box.addEventListener("scroll", () => markSides(box), { passive: true });
}
