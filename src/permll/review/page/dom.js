// Elements and text. Strings only ever become text nodes, never markup.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};

export const create = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const createSvg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

// Probabilities are never shown as 0 % or 100 %.
export const percent = (probability) => {
  if (probability < 0.01) return "<\u00a01\u00a0%";
  if (probability > 0.99) return ">\u00a099\u00a0%";
  return `${Math.round(100 * probability)}\u00a0%`;
};

// Text that breaks after separators, as in a path, rather than within a word.
export const breakable = (text) => text.split(/(?<=[/\\_.:;,=&@+])(?=[^/\\_.:;,=&@+])/).flatMap((part, index) => (index > 0 ? [create("wbr"), part] : [part]));

export const formatNumber = (number) => number.toLocaleString("en");

export const pluralize = (count, noun, plural = `${noun}s`) => `${formatNumber(count)} ${count === 1 ? noun : plural}`;

const VERBS = { accept: "accepted", keep: "kept", choose: "chose", unsure: "not sure about", undo: "undid" };

export const describeVerdict = (verdict, label) => {
  if (verdict === "drop") return "belongs to no class";
  return label === "" ? "undid “no class”" : `${VERBS[verdict]} “${label}”`;
};

export const formatTime = (at) => create("time", { datetime: at }, new Date(at).toLocaleString());
