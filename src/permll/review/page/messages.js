// Status texts: errors, notifications, progress, current filter.

import { byId, create, formatNumber, pluralize } from "./dom.js";

const TOAST_MILLISECONDS = 6000;
const STATES = { open: "Open", decided: "Decided", unsure: "Not sure", any: "Any state" };
let timer = 0;

export const showError = (text = "") => {
  byId("message").textContent = text;
  byId("message").hidden = text === "";
};

export const notify = (text, undo) => {
  const toast = byId("toast");
  toast.replaceChildren(create("span", {}, text), undo ? create("button", { type: "button", click: undo }, "Undo") : "");
  toast.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => (toast.hidden = true), TOAST_MILLISECONDS);
};

export const showProgress = ({ progress }) => {
  byId("bar").max = Math.max(progress.total, 1);
  byId("bar").value = progress.decided;
  const unsure = progress.unsure > 0 ? `, ${formatNumber(progress.unsure)} not sure` : "";
  byId("progress").textContent = `${formatNumber(progress.decided)} of ${formatNumber(progress.total)} decided${unsure}`;
};

export const showFilter = (filter) => {
  const { elements } = document.querySelector(".filters");
  elements.state.value = filter.state;
  elements.view.value = filter.view;
  byId("unflagged").checked = filter.all;
  byId("pair").textContent = filter.pair ? filter.names : "All class pairs";
  byId("clear-pair").hidden = !filter.pair;
  const parts = [STATES[filter.state], filter.pair && filter.names, filter.all ? "all labels" : "flagged labels"];
  byId("filter-summary").textContent = parts.filter(Boolean).join(" · ");
};

export const explainEmpty = ({ decided, total, open }, filter) => {
  if (total === 0 && !filter.pair) return { heading: "No label is flagged", text: "Every given label is the most probable one." };
  if (open > 0 || filter.state !== "open") return { heading: "No samples", text: "No sample matches the filter." };
  const counts = `${formatNumber(decided)} of ${pluralize(total, "label")} ${decided === 1 ? "is" : "are"} decided`;
  return { heading: "All done", text: `${counts}, none is open. Run permll apply to write the corrected data set.` };
};

// The filter is collapsible on narrow screens, and always open on wide ones.
const wide = matchMedia("(min-width: 40.01rem)");
const toggleFilter = () => (byId("filter").open = wide.matches);
wide.addEventListener("change", toggleFilter);
toggleFilter();
