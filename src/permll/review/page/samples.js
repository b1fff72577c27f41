// How samples look: an image, a text, the cells of a row, a vector as bars.

import { draw, make } from "./making.js";
import { picture } from "./server.js";

const SMALL = 96; // pixels: what is smaller is enlarged without a blur

const image = (item, side) =>
  make("img", {
    src: picture(item.row, side),
    alt: item.id,
    loading: side > 400 ? "eager" : "lazy",
    decoding: "async",
    load: (event) => event.target.classList.toggle("small", event.target.naturalWidth <= SMALL),
    error: (event) => event.target.replaceWith(make("p", { class: "quiet" }, "This image cannot be read.")),
  });

const rest = (more, one) => more > 0 && make("p", { class: "quiet" }, `and ${more.toLocaleString("en")} more ${one}`);

const cells = ({ cells: rows, more }) => [
  make(
    "table",
    { class: "cells" },
    make(
      "tbody",
      {},
      rows.map(([name, value]) =>
        make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value === "" ? make("i", {}, "empty") : value)),
      ),
    ),
  ),
  rest(more, "columns"),
];

const bars = (values) => {
  const high = Math.max(...values, 0);
  const low = Math.min(...values, 0);
  const scale = high > low ? 96 / (high - low) : 0;
  const middle = 2 + high * scale;
  const bar = (value, place) =>
    draw("rect", {
      x: place + 0.08,
      width: 0.84,
      y: value >= 0 ? middle - value * scale : middle,
      height: Math.max(Math.abs(value) * scale, 0.4),
      class: value < 0 ? "below" : "above",
    });
  return draw(
    "svg",
    { viewBox: `0 0 ${values.length} 100`, preserveAspectRatio: "none", role: "img", "aria-label": `${values.length} values as bars` },
    values.map(bar),
  );
};

const vector = ({ values, more }, short) => [
  bars(values),
  !short &&
    make(
      "details",
      {},
      make("summary", {}, values.length === 1 ? "1 number" : `${values.length} numbers`),
      make("p", { class: "numbers" }, values.join("  ")),
    ),
  !short && rest(more, "numbers"),
];

export const look = (item, side) => {
  const short = side <= 400;
  const { kind, text, more } = item.look;
  const box = make("div", { class: `look of-${kind}` });
  if (kind === "image") box.append(image(item, side));
  else if (kind === "text") box.append(make("p", { class: "text" }, more > 0 && short ? `${text} …` : text), !short && rest(more, "characters") || "");
  else if (kind === "cells") box.append(...cells(item.look).filter(Boolean));
  else if (kind === "vector") box.append(...vector(item.look, short).filter(Boolean));
  else box.append(make("p", { class: "quiet" }, "This sample is not in the data set any more."));
  return box;
};
