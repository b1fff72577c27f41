// Previews of samples: an image, a text, the cells of a row, a vector as bars.

import { imageUrl } from "./api.js";
import { create, createSvg, formatNumber } from "./dom.js";

const MAX_PIXELATED = 96; // pixels: smaller images are enlarged without blur
const SMALL_PREVIEW = 400; // pixels

const image = (item, size) =>
  create("img", {
    src: imageUrl(item.row, size),
    alt: item.id,
    loading: size > SMALL_PREVIEW ? "eager" : "lazy",
    decoding: "async",
    load: (event) => event.target.classList.toggle("small", event.target.naturalWidth <= MAX_PIXELATED),
    error: (event) => event.target.replaceWith(create("p", { class: "muted" }, "This image cannot be read.")),
  });

const rest = (more, noun) => more > 0 && create("p", { class: "muted" }, `and ${formatNumber(more)} more ${noun}`);

const cells = ({ cells: rows, more }) => [
  create(
    "table",
    { class: "cells" },
    create(
      "tbody",
      {},
      rows.map(([name, value]) =>
        create("tr", {}, create("th", { scope: "row" }, name), create("td", {}, value === "" ? create("i", {}, "empty") : value)),
      ),
    ),
  ),
  rest(more, "columns"),
];

const bars = (values) => {
  const high = Math.max(...values, 0);
  const low = Math.min(...values, 0);
  const scale = high > low ? 96 / (high - low) : 0;
  const zero = 2 + high * scale;
  const bar = (value, index) =>
    createSvg("rect", {
      x: index + 0.08,
      width: 0.84,
      y: value >= 0 ? zero - value * scale : zero,
      height: Math.max(Math.abs(value) * scale, 0.4),
      class: value < 0 ? "below" : "above",
    });
  return createSvg(
    "svg",
    { viewBox: `0 0 ${values.length} 100`, preserveAspectRatio: "none", role: "img", "aria-label": `${values.length} values as bars` },
    values.map(bar),
  );
};

const vector = ({ values, more }, short) => [
  bars(values),
  !short &&
    create(
      "details",
      {},
      create("summary", {}, values.length === 1 ? "1 number" : `${values.length} numbers`),
      create("p", { class: "numbers" }, values.join("  ")),
    ),
  !short && rest(more, "numbers"),
];

export const createPreview = (item, size) => {
  const short = size <= SMALL_PREVIEW;
  const { kind, text, more } = item.preview;
  const box = create("div", { class: `preview preview-${kind}` });
  if (kind === "image") box.append(image(item, size));
  else if (kind === "text") box.append(create("p", { class: "text" }, more > 0 && short ? `${text} …` : text), (!short && rest(more, "characters")) || "");
  else if (kind === "cells") box.append(...cells(item.preview).filter(Boolean));
  else if (kind === "vector") box.append(...vector(item.preview, short).filter(Boolean));
  else box.append(create("p", { class: "muted" }, "This sample is no longer in the data set."));
  return box;
};
