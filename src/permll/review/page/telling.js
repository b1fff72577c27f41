// What the page says: complaints, what was just done, how far the review is, and what is shown.

import { count, find, make } from "./making.js";

const STAYS = 6000; // milliseconds that a remark is to be seen
const STATES = { open: "Open", decided: "Decided", unsure: "Not sure", any: "Any state" };
let hiding = 0;

export const complain = (text = "") => {
  find("message").textContent = text;
  find("message").hidden = text === "";
};

export const tell = (text, undo) => {
  const box = find("said");
  box.replaceChildren(make("span", {}, text), undo ? make("button", { type: "button", click: undo }, "Undo") : "");
  box.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => (box.hidden = true), STAYS);
};

export const showProgress = ({ progress }) => {
  find("bar").max = Math.max(progress.total, 1);
  find("bar").value = progress.decided;
  const unsure = progress.unsure > 0 ? `, ${count(progress.unsure, "not sure", "not sure")}` : "";
  find("progress").textContent = `${progress.decided.toLocaleString("en")} of ${progress.total.toLocaleString("en")} decided${unsure}`;
};

export const showFilters = (wish) => {
  const { elements } = document.querySelector(".filters");
  elements.state.value = wish.state;
  elements.view.value = wish.view;
  find("everything").checked = wish.all;
  find("pair").textContent = wish.pair ? wish.names : "Every pair of classes";
  find("no-pair").hidden = !wish.pair;
  const words = [STATES[wish.state], wish.pair && wish.names, wish.all ? "all labels" : "suspect labels"];
  find("filter-words").textContent = words.filter(Boolean).join(" · ");
};

export const whyNothing = ({ decided, total, open }, wish) => {
  if (total === 0 && !wish.pair) return { head: "No label is suspect", text: "Every given label is the most probable one." };
  if (open > 0 || wish.state !== "open") return { head: "Nothing to show", text: "There is no sample that fits what you asked for." };
  const numbers = `${decided.toLocaleString("en")} of ${count(total, "label")}`;
  return { head: "All done here", text: `${numbers} ${decided === 1 ? "is" : "are"} decided, and nothing is open. permll apply writes the data set with them.` };
};

// On a narrow screen the filter folds away; on a wide one it is always there.
const wide = matchMedia("(min-width: 40.01rem)");
const fold = () => (find("filter").open = wide.matches);
wide.addEventListener("change", fold);
fold();
