// Points of a collection: page by page, by a filter that is put together, changed, deleted, and those like one of them.

import { ask, count, drawn, el, exact, idOf, make, pathOf, written } from "./base.js";

const PAGE = 20;
// The first ids of the pages before this one; the last is this page's.
let pages = [null];
let collection = null;
// Called with an id: the search console looks for what is like it.
let likeThis = () => {};

export function startPoints(whenLike) {
  likeThis = whenLike;
  const form = document.forms.points;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    firstPage();
  });
  form.elements.collection.addEventListener("change", () => {
    offerFields().catch(said);
    el("points-list").replaceChildren();
    el("points-said").textContent = "";
  });
  form.elements.kind.addEventListener("change", showOperands);
  el("points-add").addEventListener("click", addCondition);
  el("points-before").addEventListener("click", () => turn(-1));
  el("points-next").addEventListener("click", () => turn(1));
  el("plane-draw").addEventListener("click", () => drawPlane().catch((e) => { el("plane-said").textContent = e.message; }));
  showOperands();
}

function said(e) {
  el("points-said").textContent = e.message;
  el("points-said").className = "alarm";
}

// ---- the filter

// What a condition asks, by the kind of it.
const CONDITIONS = {
  match: (key, text) => ({ key, match: { value: valueOf(text) } }),
  text: (key, text) => ({ key, match: { text } }),
  gte: (key, text) => ({ key, range: { gte: Number(text) } }),
  lt: (key, text) => ({ key, range: { lt: Number(text) } }),
  empty: (key) => ({ is_empty: { key } }),
  id: (_, text) => ({ has_id: text.split(",").map(idOf) }),
};

// `12` and `true` are what they look like, everything else is a word.
function valueOf(text) {
  return /^(-?\d+|true|false)$/.test(text.trim()) ? exact(text) : text;
}

function showOperands() {
  const { kind, field, value } = document.forms.points.elements;
  field.disabled = kind.value === "id";
  value.disabled = kind.value === "empty";
}

async function offerFields() {
  const name = document.forms.points.elements.collection.value;
  if (!name) return;
  const { result } = await ask(pathOf(name));
  const { vectors } = result.config.params;
  const dense = typeof vectors?.size === "number" ? [""] : Object.keys(vectors ?? {});
  el("plane-using").replaceChildren(...dense.map((v) => make("option", { value: v }, v === "" ? "(default)" : v)));
  el("plane-picture").replaceChildren();
  el("plane-said").textContent = "";
  el("points-fields").replaceChildren(...Object.keys(result.payload_schema).map((field) => make("option", { value: field })));
}

function addCondition() {
  const { kind, field, value, filter, clause } = document.forms.points.elements;
  try {
    if (!field.disabled && !field.value.trim()) throw new Error("the condition has no field");
    const whole = filter.value.trim() ? exact(filter.value) : {};
    (whole[clause.value] ??= []).push(CONDITIONS[kind.value](field.value.trim(), value.value));
    filter.value = written(whole);
    value.value = "";
    el("points-said").textContent = "";
  } catch (e) {
    said(e);
  }
}

// ---- the picture

async function drawPlane() {
  const name = document.forms.points.elements.collection.value;
  const { result } = await ask(`${pathOf(name)}/projection?using=${encodeURIComponent(el("plane-using").value)}`, undefined, "exact");
  const [wide, high, edge] = [600, 400, 8];
  const all = (axis) => result.points.map((p) => p[axis]);
  const scale = (axis, length) => {
    const [least, most] = [Math.min(...all(axis)), Math.max(...all(axis))];
    return (v) => edge + ((length - 2 * edge) * (v - least)) / (most - least || 1);
  };
  const [x, y] = [scale("x", wide), scale("y", high)];
  const dots = result.points.map((p) => {
    const dot = drawn("circle", { cx: x(p.x).toFixed(1), cy: y(p.y).toFixed(1), r: 4, tabindex: 0, role: "button", "aria-label": `points like ${p.id}` }, drawn("title", {}, `${p.id}`));
    const like = () => likeThis(name, p.id, el("plane-using").value);
    dot.addEventListener("click", like);
    dot.addEventListener("keydown", (event) => { if (event.key === "Enter") like(); });
    return dot;
  });
  el("plane-picture").replaceChildren(...(dots.length ? [drawn("svg", { viewBox: `0 0 ${wide} ${high}`, class: "plane" }, ...dots)] : []));
  el("plane-said").textContent = dots.length
    ? `${count(dots.length)} random points, projected on the plane of the largest variance (${Math.round(100 * result.variance_shown)} %). Click a point to find similar ones.`
    : "there is no point with this vector yet";
}

// ---- pages

function firstPage() {
  pages = [null];
  collection = document.forms.points.elements.collection.value;
  showPage().catch(said);
}

function turn(by) {
  if (by < 0) pages.splice(-2);
  showPage().catch(said);
}

async function showPage() {
  const filter = document.forms.points.elements.filter.value.trim();
  const offset = pages.at(-1);
  const request = { limit: PAGE, with_payload: true, ...(filter && { filter: exact(filter) }), ...(offset !== null && { offset }) };
  const { result } = await ask(`${pathOf(collection)}/points/scroll`, request, "exact");
  el("points-list").replaceChildren(...result.points.map(pointOf));
  const from = (pages.length - 1) * PAGE;
  el("points-said").className = "";
  el("points-said").textContent = result.points.length ? `points ${count(from + 1)} to ${count(from + result.points.length)}, by id` : "no point matches";
  const next = result.next_page_offset;
  el("points-next").disabled = next == null;
  el("points-before").disabled = pages.length < 2;
  pages.push(next ?? null);
}

function pointOf({ id, payload }) {
  const text = make("textarea", { rows: 2, "aria-label": `payload of ${id}`, spellcheck: "false" });
  text.value = written(payload ?? {});
  const state = make("span", { role: "status", class: "quiet" });
  const act = (name, label, done) => make("button", { type: "button", "aria-label": label, onclick: () => Promise.resolve().then(done).catch((e) => { state.textContent = e.message; }) }, name);
  const row = make("li", {}, make("b", {}, `${id}`), text,
    act("Save", `Save ${id}`, async () => {
      await ask(`${pathOf(collection)}/points/payload?wait=true`, { points: [id], payload: exact(text.value) }, "json", "PUT");
      state.textContent = "saved";
    }),
    act("Like this one", `Like this one: ${id}`, () => likeThis(collection, id)),
    act("Delete", `Delete ${id}`, async () => {
      if (!confirm(`Delete point ${id} of ${collection}?`)) return;
      await ask(`${pathOf(collection)}/points/delete?wait=true`, { points: [id] });
      row.remove();
    }),
    state);
  return row;
}

export const pointsShowOf = (name) => {
  document.forms.points.elements.collection.value = name;
  firstPage();
  offerFields().catch(said);
};
