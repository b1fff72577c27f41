// Elements. Text only ever becomes text: nothing here reads markup.

const NAMESPACE = "http://www.w3.org/2000/svg";

const fill = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};

export const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(NAMESPACE, tag), attributes, children);

export const find = (id) => document.getElementById(id);

// Nothing is certain and nothing impossible, so 100 % and 0 % are never shown.
export const percent = (share) => {
  if (share < 0.01) return "<\u00a01\u00a0%";
  if (share > 0.99) return ">\u00a099\u00a0%";
  return `${Math.round(100 * share)}\u00a0%`;
};

export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

const SAYS = { accept: "accepted", keep: "kept", choose: "chose", unsure: "not sure of", undo: "took back" };

export const said = (verdict, label) => `${SAYS[verdict]} “${label}”`;

export const when = (at) => make("time", { datetime: at }, new Date(at).toLocaleString());
