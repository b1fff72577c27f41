// Requests to the server. Every response is JSON; errors are sentences.

export class RequestError extends Error {}

const request = async (path, options) => {
  let response, body;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
    body = await response.json();
  } catch {
    if (!response || response.ok) // or the response is truncated
      throw new RequestError("No response from the server. Is permll review still running? Earlier decisions are saved.");
    body = {};
  }
  if (response.ok || (response.status === 409 && body.items)) return body;
  if (response.status === 403 || response.status === 421)
    throw new RequestError("This review has ended. Open the address that permll review printed last.");
  throw new RequestError(body.message ?? "Unexpected error; see the terminal of permll review.");
};

export const get = (path, query = {}) => request(`${path}?${new URLSearchParams(query)}`);

export const post = (path, query, body) =>
  request(`${path}?${new URLSearchParams(query)}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });

export const imageUrl = (row, size) => `/images/${row}/${size}?v=${document.body.dataset.version}`;
