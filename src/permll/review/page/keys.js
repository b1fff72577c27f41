// Keys, and the dialogs that explain them and ask for a name. What is remembered is kept in cookies, which know no ports.

import { find } from "./making.js";

const remember = (name, value) => {
  document.cookie = `permll-${name}=${encodeURIComponent(value)}; SameSite=Strict; Path=/; Max-Age=31536000`;
};

const recall = (name) => {
  const found = document.cookie.split("; ").find((part) => part.startsWith(`permll-${name}=`));
  return found ? decodeURIComponent(found.split("=")[1]) : "";
};

const help = find("keys");
const naming = find("naming");
const whom = find("reviewer");
const withKeys = find("with-keys");
const waiting = []; // for a name
let reviewer = document.body.dataset.reviewer || recall("reviewer");

const showName = () => {
  whom.textContent = reviewer || "Who are you?";
  whom.setAttribute("aria-label", reviewer ? `Reviewer: ${reviewer}` : "Who are you?");
};

for (const dialog of [help, naming]) {
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
find("help").addEventListener("click", () => help.showModal());
whom.addEventListener("click", () => askName());
withKeys.checked = recall("keys") !== "off";
withKeys.addEventListener("change", () => remember("keys", withKeys.checked ? "on" : "off"));
find("naming-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = find("name").value.trim();
  if (!name) return;
  reviewer = name;
  remember("reviewer", name);
  showName();
  naming.close();
});
naming.addEventListener("close", () => naming.open || waiting.splice(0).forEach((done) => done(reviewer)));
showName();

export const askName = () =>
  new Promise((done) => {
    find("name").value = reviewer;
    waiting.push(done);
    naming.showModal();
    find("name").select();
  });

// Who decides: asked once, then known. Empty if somebody would not say.
export const whoDecides = async () => reviewer || (await askName());

// A field of a dialog that was just closed keeps the focus for a moment.
const isTyping = (element) =>
  element instanceof HTMLInputElement && !["checkbox", "radio"].includes(element.type) && !element.closest("dialog:not([open])");

// Bind keys to functions. A key that is held down counts once, except for arrows.
export const bindKeys = (bindings) => {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "?") {
      event.preventDefault();
      help.showModal();
      return;
    }
    const arrow = event.key.startsWith("Arrow");
    if (arrow && event.target instanceof HTMLInputElement && !event.target.closest("dialog")) return; // moves among the options
    if (!arrow && (!withKeys.checked || event.repeat)) return;
    const bound = bindings[event.key] ?? (/^[1-9]$/.test(event.key) ? bindings.digit : undefined);
    if (!bound) return;
    event.preventDefault();
    bound(event.key);
  });
};
