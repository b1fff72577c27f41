// The filter: words separated by commas; what contains one of them stays.
const filter = document.getElementById("filter");
const marked = [...document.querySelectorAll("[data-method]")];

const show = () => {
  const words = filter.value.toLowerCase().split(",").map((word) => word.trim()).filter(Boolean);
  const seen = new Set();
  const all = new Set();
  for (const element of marked) {
    const name = element.dataset.method;
    const fits = words.length === 0 || words.some((word) => name.includes(word));
    element.hidden = !fits;
    all.add(name);
    if (fits) seen.add(name);
  }
  document.getElementById("filtered").textContent = words.length ? `${seen.size} of ${all.size} methods` : "";
};

if (marked.length) {
  const form = filter.form;
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  filter.addEventListener("input", show);
}
