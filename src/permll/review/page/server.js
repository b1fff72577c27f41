// What the page asks the review for. Every answer is JSON; what cannot be done is a sentence.

export class Refused extends Error {}

const ask = async (path, options) => {
  let answer, body;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
    body = await answer.json();
  } catch {
    if (!answer || answer.ok) // an answer may break off
      throw new Refused("The review does not answer: is permll review still running? Your earlier decisions are kept.");
    body = {};
  }
  if (answer.ok || (answer.status === 409 && body.items)) return body;
  if (answer.status === 403 || answer.status === 421)
    throw new Refused("This page belongs to a review that has ended: open the address that permll review printed last.");
  throw new Refused(body.message ?? "Something went wrong: permll review says more in its terminal.");
};

export const get = (path, query = {}) => ask(`${path}?${new URLSearchParams(query)}`);

export const post = (path, query, body) =>
  ask(`${path}?${new URLSearchParams(query)}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });

export const picture = (row, side) => `/picture/${row}/${side}?v=${document.body.dataset.version}`;
