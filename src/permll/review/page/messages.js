// Status texts: errors, notifications, progress.

import { get } from "./api.js";
import { breakable, byId, create, formatNumber, pluralize } from "./dom.js";

const TOAST_MILLISECONDS = 6000;
let timer = 0;
const sentence = { running: false, outdated: false };

export const showError = (text = "") => {
  byId("message").textContent = text;
  byId("message").hidden = text === "";
};

export const notify = (text, undo) => {
  const toast = byId("toast");
  toast.replaceChildren(create("span", {}, breakable(text)), undo ? create("button", { type: "button", click: undo }, "Undo") : "");
  clearTimeout(timer);
  timer = setTimeout(() => toast.replaceChildren(), TOAST_MILLISECONDS);
};

export const showProgress = ({ progress }) => {
  byId("bar").max = Math.max(progress.total, 1);
  byId("bar").value = progress.decided;
  const unsure = progress.unsure > 0 ? `, ${formatNumber(progress.unsure)} not sure` : "";
  byId("progress").textContent = `${formatNumber(progress.decided)} of ${formatNumber(progress.total)} decided${unsure}`;
};

// Updates the estimate of wrong labels, which takes the server longer than a decision: at most one request at a time.
export const updateEstimate = async () => {
  sentence.outdated = true;
  if (sentence.running) return;
  sentence.running = true;
  while (sentence.outdated) {
    sentence.outdated = false;
    try {
      byId("estimate").textContent = (await get("/api/progress")).sentence.replaceAll(" %", "\u00a0%");
    } catch {
      // the request of the decision itself shows the error
    }
  }
  sentence.running = false;
};

export const explainEmpty = ({ decided, total, open }, filter) => {
  if (filter.find) return { heading: "No samples", text: `No sample with “${filter.find}” in its id matches the filter.` };
  if (total === 0 && !filter.pair) return { heading: "No label is flagged", text: "Every given label is the most probable one." };
  if (open > 0 || filter.state !== "open") return { heading: "No samples", text: "No sample matches the filter." };
  const counts = `${formatNumber(decided)} of ${pluralize(total, "label")} ${decided === 1 ? "is" : "are"} decided`;
  return { heading: "All done", text: `${counts}, none is open. Run permll apply to write the corrected data set.` };
};
