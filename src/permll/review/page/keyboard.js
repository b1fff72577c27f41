// Keyboard shortcuts, help, and the reviewer's name. Settings are stored in cookies, which reviews on other ports share.

import { byId, create } from "./dom.js";

let classKeys = {}; // key -> class name

const saveSetting = (name, value) => {
  document.cookie = `permll-${name}=${encodeURIComponent(value)}; SameSite=Strict; Path=/; Max-Age=31536000`;
};

const loadSetting = (name) => {
  const cookie = document.cookie.split("; ").find((part) => part.startsWith(`permll-${name}=`));
  return cookie ? decodeURIComponent(cookie.split("=")[1]) : "";
};

const help = byId("help-dialog");
const nameDialog = byId("name-dialog");
const reviewerButton = byId("reviewer");
const shortcuts = byId("shortcuts");
const pending = []; // callbacks that wait for a name
let reviewer = document.body.dataset.reviewer || loadSetting("reviewer");

const showReviewer = () => {
  reviewerButton.textContent = reviewer || "Set your name";
  reviewerButton.setAttribute("aria-label", reviewer ? `Reviewer: ${reviewer}` : "Set your name");
};

for (const dialog of [help, nameDialog]) {
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
byId("help").addEventListener("click", () => help.showModal());
reviewerButton.addEventListener("click", () => askName());
shortcuts.checked = loadSetting("keys") !== "off";
shortcuts.addEventListener("change", () => saveSetting("keys", shortcuts.checked ? "on" : "off"));
byId("name-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const name = byId("name").value.trim();
  if (!name) return;
  reviewer = name;
  saveSetting("reviewer", name);
  showReviewer();
  nameDialog.close();
});
nameDialog.addEventListener("close", () => nameDialog.open || pending.splice(0).forEach((resolve) => resolve(reviewer)));
showReviewer();

export const askName = () =>
  new Promise((resolve) => {
    byId("name").value = reviewer;
    pending.push(resolve);
    nameDialog.showModal();
    byId("name").select();
  });

// Returns the reviewer's name, asking for it once; empty if the dialog was canceled.
export const getReviewer = async () => reviewer || (await askName());

// A field of a dialog that was just closed keeps the focus for a moment.
const isTyping = (element) =>
  element instanceof HTMLInputElement && !["checkbox", "radio"].includes(element.type) && !element.closest("dialog:not([open])");

// Sets the keys of classes, and lists them in the help.
export const setClassKeys = (keys) => {
  classKeys = keys;
  byId("class-keys").replaceChildren(
    ...Object.entries(keys)
      .sort(([one], [other]) => KEYS.indexOf(one) - KEYS.indexOf(other))
      .map(([key, name]) => create("li", {}, create("kbd", {}, key), name)),
  );
};

const KEYS = "1234567890ABCDEFGHIJKLMNOPQRSTUVWXYZ";

// Capital letters are pressed with Shift, so that Caps Lock alone does not turn a shortcut into a class.
export const shortcut = (key) => (/[A-Z]/.test(key) ? `Shift+${key}` : key);

const classOf = ({ key, shiftKey }) => classKeys[/^[a-z]$/i.test(key) ? (shiftKey ? key.toUpperCase() : "") : key];

// Binds keys to functions; chooseClass takes the class whose key was pressed. Keys do not repeat while held down, except for arrows.
export const bindKeys = (bindings, chooseClass) => {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "?") {
      event.preventDefault();
      help.showModal();
      return;
    }
    const arrow = event.key.startsWith("Arrow");
    if (arrow && event.target instanceof HTMLInputElement && !event.target.closest("dialog")) return; // moves among radio buttons
    if (!arrow && (!shortcuts.checked || event.repeat)) return;
    const name = classOf(event);
    const isCapital = event.shiftKey && /^[a-z]$/i.test(event.key);
    const action = name === undefined ? !isCapital && bindings[event.key.length === 1 ? event.key.toLowerCase() : event.key] : () => chooseClass(name);
    if (!action) return;
    event.preventDefault();
    action();
  });
};
