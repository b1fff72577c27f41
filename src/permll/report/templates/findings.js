
// Cards: those of one pair of classes, and those that have words in their id or classes. Without this script all are shown.
const form = document.querySelector(".filter");
const cards = [...document.querySelectorAll(".card")];
const cells = [...document.querySelectorAll("td[data-pair]")];

const filterCards = () => {
  const { pair, words } = form.elements;
  const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let seen = 0;
  for (const card of cards) {
    const fits = (!pair.value || card.dataset.pair === pair.value) && asked.every((word) => card.dataset.words.includes(word));
    card.hidden = !fits;
    seen += fits;
  }
  for (const cell of cells) cell.firstElementChild.setAttribute("aria-pressed", cell.dataset.pair === pair.value);
  const filtered = Boolean(pair.value || asked.length);
  form.querySelector("button").disabled = !filtered;
  const all = pair.value ? Number(pair.selectedOptions[0].dataset.all) : 0;
  const more = all > seen && !asked.length ? `; ${all} are flagged in all` : "";
  document.getElementById("filtered").textContent = filtered ? `${seen} of ${cards.length} shown${more}` : "";
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
    if (pair.value) document.getElementById("suspects").scrollIntoView();
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
for (const part of document.querySelectorAll(".copy, .hint")) part.hidden = false;

// A command breaks between its words only, not after a hyphen inside an option.
for (const code of document.querySelectorAll(".next code")) {
  const parts = code.textContent.split(/( +)/).map((text, place) => {
    if (place % 2) return text;
    const word = document.createElement("span");
    word.textContent = text;
    return word;
  });
  code.replaceChildren(...parts);
}

// Tables that are wider than the page show on which side more is.
const markSides = (box) => {
  box.classList.toggle("onward", box.scrollLeft > 1);
  box.classList.toggle("further", box.scrollWidth - box.clientWidth - box.scrollLeft > 1);
};
const resized = new ResizeObserver((changes) => changes.forEach(({ target }) => markSides(target)));
for (const box of document.querySelectorAll(".scroll")) {
  resized.observe(box);
  box.addEventListener("scroll", () => markSides(box), { passive: true });
}
