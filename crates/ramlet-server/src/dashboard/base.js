// What all parts of the dashboard share: elements, figures as text, and requests to the server.
// Everything shown is set as text, never as markup: names and payloads come from users.

export const el = (id) => document.getElementById(id);

let key = sessionStorage.getItem("ramlet-key") ?? "";

export function useKey(text) {
  key = text;
  sessionStorage.setItem("ramlet-key", key);
}

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export function drawn(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function bytes(n) {
  if (n == null) return "–";
  for (const [unit, scale] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (n >= scale) return `${(n / scale).toFixed(n / scale < 10 ? 2 : 1)} ${unit}`;
  }
  return `${n} B`;
}

export const count = (n) => Number(n).toLocaleString("en");

export const list = (lines) => make("ul", {}, ...lines.map((line) => make("li", {}, ...[line].flat())));

export const pathOf = (collection) => `/collections/${encodeURIComponent(collection)}`;

// Ids and payloads have integers that a double hasn't: those are BigInt here.
export function exact(text) {
  return JSON.parse(text, (_, value, context) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value);
}

export function written(value, indent) {
  const plain = (n) => JSON.rawJSON?.(`${n}`) ?? Number(n);
  return JSON.stringify(value, (_, v) => (typeof v === "bigint" ? plain(v) : v), indent);
}

// An id as it is typed: a number, or a UUID.
export const idOf = (text) => (/^\d+$/.test(text.trim()) ? BigInt(text) : text.trim());

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function ask(path, body, as = "json", method = body === undefined ? "GET" : "POST") {
  const headers = key ? { "api-key": key } : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(path, { headers, method, body: body === undefined ? undefined : written(body) });
  const text = await answer.text();
  if (!answer.ok) {
    let said = text;
    try { said = JSON.parse(text).status.error; } catch { /* not in the envelope: shown as it is */ }
    throw new Refused(answer.status, said || `${path}: ${answer.status}`);
  }
  return { text: (t) => t, json: JSON.parse, exact }[as](text);
}
