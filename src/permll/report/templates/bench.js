// Filter by method: words separated by commas, any of which must match.
const filter = document.getElementById("filter");
const elements = [...document.querySelectorAll("[data-method]")];

const applyFilter = () => {
  const words = filter.value.toLowerCase().split(",").map((word) => word.trim()).filter(Boolean);
  const matching = new Set();
  const all = new Set();
  for (const element of elements) {
    const name = element.dataset.method;
    const matches = words.length === 0 || words.some((word) => name.includes(word));
    element.hidden = !matches;
    all.add(name);
    if (matches) matching.add(name);
  }
  document.getElementById("filtered").textContent = words.length ? `${matching.size} of ${all.size} methods` : "";
};

if (elements.length) {
  const form = filter.form;
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  filter.addEventListener("input", applyFilter);
}
