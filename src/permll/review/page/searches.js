// Searches in the dialog: a class, which may be new, a pair of classes, or a sample by its id.

import { get } from "./api.js";
import { formatNumber, percent } from "./dom.js";
import { query } from "./filter.js";
import { pick } from "./picker.js";

const STATES = { open: "open", decided: "decided", unsure: "not sure" };

// Options of the dialog: the class of that name, the others by probability, then the text itself as a new class.
const classOptions = ({ classes, similar, new: added }, probabilities, text) => {
  const isEqual = (name) => name.toLowerCase() === text.trim().toLowerCase();
  const options = classes.map(({ name, key }) => ({
    name,
    key,
    note: similar.includes(name) ? "similar name" : probabilities.has(name) ? percent(probabilities.get(name)) : "",
    order: isEqual(name) ? 2 : (probabilities.get(name) ?? -1),
  }));
  options.sort((a, b) => b.order - a.order);
  const note = similar.length > 0 ? `similar to “${similar[0]}”` : "new class";
  return added ? [...options, { name: added, title: `Add “${added}”`, note, isNew: true }] : options;
};

// Resolves to { name, isNew }, or null.
export const searchClass = (candidates) => {
  const known = candidates.filter(({ probability }) => probability !== null);
  const probabilities = new Map(known.map(({ label, probability }) => [label, probability]));
  return pick("Choose or add a class", async (text) => classOptions(await get("/api/classes", { query: text }), probabilities, text));
};

// Resolves to { pair, name }, or null.
export const searchPair = () =>
  pick("Given → proposed", async (text) => {
    const { pairs } = await get("/api/pairs", { ...query(), query: text });
    return pairs.map((pair) => ({ ...pair, name: `${pair.given} → ${pair.proposed}`, note: `${formatNumber(pair.open)} open of ${formatNumber(pair.count)}` }));
  });

// Resolves to { row } of one sample, or { find } for all samples whose ids contain a text, or null.
export const searchId = () =>
  pick("Find a sample by its id", async (text) => {
    const { samples, count } = await get("/api/search", { query: text });
    const options = samples.map(({ row, id, given, proposed, state }) => ({
      row,
      name: id,
      note: `${given === proposed ? given : `${given} → ${proposed}`} · ${STATES[state]}`,
    }));
    return count > 1 ? [...options, { find: text.trim(), name: text, title: `Show all ${formatNumber(count)} in the grid` }] : options;
  });
