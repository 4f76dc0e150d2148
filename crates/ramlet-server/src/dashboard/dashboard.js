// The dashboard: what the server says of itself at /memory, /metrics and /collections, drawn anew every two seconds.
// Everything shown is set as text, never as markup: names and payloads come from users.

import { Refused, ask, bytes, count, drawn, el, exact, idOf, list, make, pathOf, useKey, written } from "./base.js";
import { handles, startManage } from "./manage.js";
import { divisionOf, showNodes } from "./nodes.js";
import { pointsShowOf, startPoints } from "./points.js";

const POLL_MS = 2000;
const HISTORY = 60;
// The endpoints that are searches, as /metrics names them.
const SEARCHES = /\/points\/(query|search|recommend|discover)|\/(Query|Search|Recommend|Discover)/;

let chosen = null;
let before = null;
// A link that couldn't be followed yet: the key was missing.
let linkWaits = true;
const histories = new Map();

// ---- metrics

// Lines of the Prometheus text format, as { name, labels, value }.
function parseMetrics(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const found = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    }
    samples.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return samples;
}

function sum(samples, name, admits = () => true) {
  return samples.filter((s) => s.name === name && admits(s.labels)).reduce((all, s) => all + s.value, 0);
}

function totals(samples) {
  const search = (labels) => SEARCHES.test(labels.endpoint ?? "");
  // POST to /points reads points by their ids.
  const write = ({ endpoint = "", method }) =>
    (/\/points$/.test(endpoint) && method === "PUT") ||
    (/\/points\/(payload|vectors|delete|batch)/.test(endpoint) && method !== "GET") ||
    /\.Points\/(Upsert|Delete|Set|Update|Overwrite|Clear)/.test(endpoint);
  const of = (suffix, admits) => sum(samples, `rest_responses_${suffix}`, admits) + sum(samples, `grpc_responses_${suffix}`, admits);
  return {
    at: performance.now(),
    uptime: sum(samples, "ramlet_uptime_seconds"),
    searches: of("total", search),
    searchSeconds: of("duration_seconds_sum", search),
    writes: of("total", write),
    read: sum(samples, "ramlet_disk_read_bytes_total"),
    written: sum(samples, "ramlet_disk_written_bytes_total"),
    hits: sum(samples, "ramlet_block_cache_hits_total"),
    misses: sum(samples, "ramlet_block_cache_misses_total"),
  };
}

function figure(name, value, shown, unit) {
  const past = histories.get(name) ?? [];
  past.push(Number.isFinite(value) ? value : 0);
  if (past.length > HISTORY) past.shift();
  histories.set(name, past);
  const most = Math.max(...past, 1e-9);
  const points = past.map((v, i) => `${HISTORY - past.length + i},${19 - (v / most) * 18}`).join(" ");
  const svg = drawn("svg", { viewBox: `0 0 ${HISTORY - 1} 20`, preserveAspectRatio: "none", "aria-hidden": "true" }, drawn("polyline", { points }));
  return make("div", { class: "figure" }, make("small", {}, name), make("b", {}, shown), make("small", {}, unit), svg);
}

function showLive(samples) {
  const now = totals(samples);
  let was = before ?? now;
  before = now;
  // Another process, which began at zero.
  if (now.uptime < was.uptime) was = { at: now.at - now.uptime * 1000 };
  const seconds = Math.max((now.at - was.at) / 1000, 1e-3);
  const grown = (field) => Math.max(now[field] - (was[field] ?? 0), 0);
  const rate = (field) => grown(field) / seconds;
  const searches = grown("searches");
  const latency = searches > 0 ? (grown("searchSeconds") / searches) * 1000 : NaN;
  const perSearch = searches > 0 ? grown("read") / searches : NaN;
  el("live").replaceChildren(
    figure("searches", rate("searches"), rate("searches").toFixed(rate("searches") < 10 ? 1 : 0), "a second"),
    figure("mean time", latency, Number.isFinite(latency) ? latency.toFixed(2) : "–", "ms a search"),
    figure("read for a search", perSearch, Number.isFinite(perSearch) ? bytes(Math.round(perSearch)) : "–", "all disk reads / searches"),
    figure("writes", rate("writes"), rate("writes").toFixed(1), "requests a second"),
    figure("disk reads", rate("read"), bytes(Math.round(rate("read"))), "a second"),
    figure("disk writes", rate("written"), bytes(Math.round(rate("written"))), "a second"),
  );
}

// ---- RAM

const colours = new Map();
function colour(name) {
  if (!colours.has(name)) colours.set(name, `c${colours.size % 16}`);
  return colours.get(name);
}

function drawBar(bar, parts, whole, told = bytes) {
  const shown = parts.filter((p) => p.bytes > 0).map((p) => {
    const label = p.bytes / whole > 0.08 ? [make("b", {}, p.name)] : [];
    const span = make("span", { class: colour(p.name), title: `${p.name}: ${told(p.bytes)}` }, ...label);
    span.dataset.bytes = p.bytes;
    span.style.flex = `0 0 ${(100 * p.bytes) / whole}%`;
    return span;
  });
  bar.dataset.whole = whole;
  bar.replaceChildren(...shown);
  bar.setAttribute("aria-label", parts.map((p) => `${p.name} ${told(p.bytes)}`).join(", "));
}

function showMemory({ budget, ledger, process, storage }) {
  const whole = budget.memory_bytes;
  const reserves = budget.rows.filter((r) => r.kind === "reserve");
  drawBar(el("divided"), budget.rows, whole);
  const held = [...reserves, ...ledger.consumers.map((c) => ({ name: c.name, bytes: c.used_bytes }))];
  drawBar(el("in-use"), held, whole);
  const limit = process.cgroup_limit_bytes ? `; the cgroup has ${bytes(process.cgroup_used_bytes)} of ${bytes(process.cgroup_limit_bytes)}` : "";
  el("ram-sum").textContent =
    `${bytes(whole)} were given. The process has ${bytes(process.anon_bytes)}, and ${bytes(process.file_bytes)} of mapped files (its program), which the kernel takes back when it needs them${limit}. Disk: ${storage}.`;
  // Of a name that is in both bars, both sizes; what is reserved is used as it was divided.
  const share = new Map(budget.rows.map((r) => [r.name, r.bytes]));
  const now = new Map(held.filter((h) => h.bytes > 0).map((h) => [h.name, h.bytes]));
  // What is cached may be more than its row: it has what the others don't use, and gives it back.
  const sizes = (name) => {
    const [own, used] = [share.get(name), now.get(name)];
    if (own === undefined) return `${bytes(used)} in use`;
    if (used === undefined || used === own) return bytes(own);
    return used < own ? `${bytes(used)} of ${bytes(own)} in use` : `${bytes(used)} in use: ${bytes(own)}, and what others don't use`;
  };
  el("legend").replaceChildren(...[...new Set([...share.keys(), ...now.keys()])].map((name) =>
    make("li", {}, make("i", { class: colour(name) }), `${name} ${sizes(name)}`)));
  el("consumers").replaceChildren(...ledger.consumers.map((c) => make("tr", {},
    make("td", {}, c.name),
    make("td", { class: "n" }, bytes(c.used_bytes)),
    make("td", { class: "n" }, bytes(c.peak_bytes)),
    make("td", { class: "n" }, bytes(c.cap_bytes)),
    make("td", { class: c.refused ? "n alarm" : "n" }, count(c.refused)),
  )));
}

// ---- the five questions

const REFUSED = {
  memory_busy: "for lack of memory, for a moment", memory_never: "that can never fit the budget",
  memory_full: "because the data takes the memory", body_too_large: "with bodies that are too large", queue_full: "because a queue is full",
  rate: "by the rate limit of a collection", quota: "by a quota", disk_full: "for lack of disk space", descriptors: "for lack of file descriptors",
  collection_closed: "because a collection is closed", writes_stopped: "because writes have stopped", shutting_down: "while the server stops",
};

// Searches and how long they took, from the histograms: the bound of the bucket that has the share.
function quantile(samples, share) {
  const at = new Map();
  for (const s of samples) {
    if (!/^(rest|grpc)_responses_duration_seconds_bucket$/.test(s.name) || !SEARCHES.test(s.labels.endpoint ?? "")) continue;
    const le = s.labels.le === "+Inf" ? Infinity : Number(s.labels.le);
    at.set(le, (at.get(le) ?? 0) + s.value);
  }
  const all = at.get(Infinity) ?? 0;
  const bound = [...at.keys()].sort((a, b) => a - b).find((le) => at.get(le) >= share * all);
  return all === 0 ? null : bound === Infinity ? "more than 26 s" : `${bound * 1000} ms`;
}

const NO_ACCESS = "Only a key for all collections can see this.";

// What a key of some collections isn't told is no trouble: the question says so.
const orRefused = (asked) => asked.catch((e) => {
  if (e instanceof Refused && [401, 403].includes(e.status)) return null;
  throw e;
});

// What is wrong changes less often than figures do.
const QUESTIONS_EVERY = 3;
const SLOW_SHOWN = 5;
let questionsAsked = 0;

async function showQuestions(samples) {
  if (questionsAsked++ % QUESTIONS_EVERY > 0) return;
  const [found, profile] = await Promise.all([orRefused(ask("/issues")), orRefused(ask("/profiler/slow_requests?limit=64"))]);
  const issues = found?.result.issues ?? [];
  const put = (id, ...content) => el(id).replaceChildren(...content);
  const told = (issue) => {
    const solution = issue.solution?.immediate?.message ?? issue.solution?.immediate_choice?.[0]?.message ?? issue.solution?.refactor;
    return [issue.description, ...(solution ? [make("small", {}, `→ ${solution}`)] : [])];
  };
  const todo = issues.filter((i) => !["BUDGET_TOO_SMALL", "INDEX_BEING_BUILT"].includes(i.code));
  put("q-todo", found === null ? NO_ACCESS : todo.length ? list(todo.map(told)) : "Nothing: there is no issue.");

  const figures = samples ?? [];
  const [p50, p99] = [quantile(figures, 0.5), quantile(figures, 0.99)];
  const spread = samples === null ? NO_ACCESS : p50 === null ? "No search yet." : `Half of the searches took at most ${p50}, 99 of 100 at most ${p99}.`;
  // Those that say why come first.
  const kept = profile?.result.requests ?? [];
  const slow = [...kept.filter((r) => r.meaning.length), ...kept.filter((r) => !r.meaning.length)].slice(0, SLOW_SHOWN).map((r) => [
    `${r.request_name} on ${r.collection_name || "the server"}: ${(r.duration * 1000).toFixed(1)} ms${r.approx_count > 1 ? `, the longest of ${r.approx_count} times` : ""}`,
    ...r.meaning.map((m) => make("small", {}, `→ ${m}`)),
  ]);
  const threshold = profile?.result.threshold_seconds;
  const none = profile === null ? "Only an admin key can see slow requests."
    : threshold == null ? "Slow requests aren't kept (--slow-query off)." : `None took longer than ${threshold * 1000} ms (--slow-query).`;
  put("q-slow", spread, " ", ...(slow.length ? [list(slow)] : samples === null ? [] : [none]));

  const refused = figures.filter((s) => s.name === "ramlet_refusals_total" && s.value > 0)
    .map((s) => {
      const last = profile?.result.refusals.find((r) => r.kind === s.labels.kind);
      const why = last?.message ? [make("small", {}, `→ ${last.collection_name ?? "the server"}, ${since(last.seconds_ago)} ago: ${last.message}`)] : [];
      return [`${count(s.value)} ${REFUSED[s.labels.kind] ?? s.labels.kind}`, ...why];
    });
  put("q-refused", samples === null ? NO_ACCESS : refused.length ? list(refused) : "Nothing was refused since the start.");

  const busy = [...said].filter(([, s]) => s.info?.status === "yellow").map(([name]) => name).slice(0, 5);
  const jobs = await Promise.all(busy.map(async (name) => {
    const answer = await ask(`${pathOf(name)}/optimizations`).catch(() => null);
    const job = answer?.result.running?.[0];
    const step = job?.progress.children[0];
    if (!job) return `${name}: something is due (a flush, a merge or an index)`;
    const far = step ? `: ${step.name} ${Math.floor((100 * step.done) / Math.max(step.total, 1))} %` : "";
    return `${name}: ${job.optimizer} of ${job.segments.length} segments is under way${far}`;
  }));
  const waiting = sum(figures, "ramlet_searches_waiting");
  const past = (profile?.result.jobs ?? []).slice(0, 3).map((j) =>
    `${j.kind} of ${j.collection_name ?? "a dropped collection"}, ${j.duration.toFixed(2)} s, ${since(j.ended_seconds_ago)} ago${j.failed ? ", failed" : ""}`);
  const doing = [...jobs, ...(waiting ? [`${count(waiting)} searches wait for a thread`] : [])];
  put("q-doing", doing.length ? list(doing) : "Nothing in the background.",
    ...(past.length ? [make("small", {}, `Longest lately: ${past.join("; ")}`)] : []));

  const more = issues.filter((i) => i.code === "BUDGET_TOO_SMALL");
  const stairs = (await orRefused(ask("/plan")))?.result;
  put("q-ram", !stairs && !more.length ? NO_ACCESS : more.length ? list(more.map(told)) : "Up to four times the memory, no search is predicted to be twice as fast.", ...(stairs ? stairsOf(stairs) : []));
}

// The staircase of what is stored: memory to the right, searches a second upwards, both doubling from line to line.
function stairsOf({ steps, memory_bytes: own, disk_bytes: disk }) {
  // One step is no staircase: what is stored is as fast with less.
  if (steps.length < 2) return [];
  const [wide, high] = [600, 150];
  const memory = [own, ...steps.map((s) => s.memory_bytes_min)];
  const [least, most] = [Math.min(...memory) * 0.8, Math.max(...memory) * 1.25];
  const speeds = steps.map((s) => s.queries_per_second);
  const [slow, fast] = [Math.min(...speeds) * 0.7, Math.max(...speeds) * 1.3];
  const x = (n) => (wide * Math.log(n / least)) / Math.log(most / least);
  const y = (n) => high - (high * Math.log(n / slow)) / Math.log(fast / slow);
  const corners = steps.flatMap((s, at) => [[x(s.memory_bytes_min), at ? y(steps[at - 1].queries_per_second) : high], [x(s.memory_bytes_min), y(s.queries_per_second)]]);
  corners.push([wide, corners.at(-1)[1]]);
  const here = steps.find((s) => s.here);
  const at = here ? y(here.queries_per_second) : high;
  const reads = (s) => (s.scan_bytes_per_query ? `${s.reads_per_query} and ${bytes(s.scan_bytes_per_query)} in sequence` : `${s.reads_per_query}`);
  const words = (s) => `${bytes(s.memory_bytes_min)}: ${count(s.queries_per_second)} searches a second, reads each: ${reads(s)}`;
  const picture = drawn("svg", { viewBox: `0 0 ${wide} ${high + 18}`, class: "stairs", role: "img", "aria-label": `Searches a second by memory. ${steps.map(words).join("; ")}. Here: ${bytes(own)}.` },
    drawn("polyline", { points: corners.map((c) => c.map((n) => n.toFixed(1)).join(",")).join(" ") }),
    drawn("line", { x1: x(own), x2: x(own), y1: 0, y2: high }),
    drawn("circle", { cx: x(own), cy: at, r: 5 }),
    drawn("text", { x: x(own), y: high + 14, "text-anchor": x(own) > wide / 2 ? "end" : "start" }, `you are here: ${bytes(own)}`));
  const rows = steps.map((s) => make("tr", { class: s.here ? "here" : "" },
    make("td", { class: "n" }, bytes(s.memory_bytes_min)), make("td", { class: "n" }, count(s.queries_per_second)), make("td", { class: "n" }, reads(s)),
    make("td", {}, s.here ? "you are here" : "")));
  const table = make("details", {}, make("summary", {}, `${steps.length} ${steps.length === 1 ? "step" : "steps"}; ${bytes(disk)} on disk`),
    make("table", {}, head("n:memory from", "n:searches a second", "n:reads each", ""), make("tbody", {}, ...rows)));
  return [picture, table];
}

// ---- collections

// Rows stay the same elements while they are drawn anew: the focus stays where it is.
const rows = new Map();
// What each collection said last, and when. There may be thousands: each time some are asked, those in view first.
const said = new Map();
const ASKED_AT_ONCE = 50;
const RECALL_QUERIES_MIN = 10;

function rowOf(name) {
  if (!rows.has(name)) {
    const cells = ["", "n", "n", "n", "n"].map((kind) => make("td", { class: kind }));
    const button = make("button", { type: "button", title: name, onclick: () => choose(name) }, name);
    rows.set(name, { row: make("tr", {}, make("td", {}, button), ...cells), cells });
  }
  return rows.get(name);
}

function placeRows(names) {
  const body = document.querySelector("#collections tbody");
  const there = new Set(names);
  for (const name of [...rows.keys()].filter((name) => !there.has(name))) {
    rows.get(name).row.remove();
    rows.delete(name);
    said.delete(name);
  }
  const none = body.querySelector(".none");
  if (names.length > 0) none?.remove();
  else if (!none) body.append(make("tr", { class: "none" }, make("td", { colspan: 6, class: "quiet" }, "none yet")));
  names.forEach((name, at) => {
    const { row } = rowOf(name);
    if (body.children[at] !== row) body.insertBefore(row, body.children[at] ?? null);
  });
}

function inView({ row }) {
  const { top, bottom } = row.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

const collectionNames = async () => (await ask("/collections")).result.collections.map((c) => c.name).sort();

async function showCollections(names, samples) {
  placeRows(names);
  offer(document.forms.search.elements.collection, names);
  offer(document.forms.points.elements.collection, names);
  const of = (metric, label) => new Map(samples.filter((s) => s.name === metric).map((s) => [s.labels[label], s.value]));
  const points = of("collection_points", "id");
  // Those that aren't in RAM have no series, and who asks for one loads it.
  const someRest = samples.some((s) => s.name === "ramlet_collections_unloaded" && s.value > 0);
  const inRam = names.filter((name) => !someRest || points.has(name));
  const age = new Map(inRam.map((name) => [name, inView(rowOf(name)) ? -1 : said.get(name)?.at ?? 0]));
  const asked = inRam.toSorted((a, b) => age.get(a) - age.get(b)).slice(0, ASKED_AT_ONCE);
  await Promise.all(asked.map(async (name) => {
    const info = await ask(pathOf(name)).catch(() => null);
    said.set(name, { at: performance.now(), info: info?.result });
  }));
  const [ram, disk] = ["memory", "disk"].map((what) => of(`ramlet_collection_${what}_bytes`, "id"));
  const [recall, error, queries] = ["measured", "measured_error", "queries_total"].map((what) => of(`ramlet_recall_${what}`, "collection"));
  // One query says nothing.
  const measured = (name) => !recall.has(name) ? "–" : queries.get(name) < RECALL_QUERIES_MIN ? `${count(queries.get(name))} of ${RECALL_QUERIES_MIN} queries so far` : `${recall.get(name).toFixed(3)} ± ${error.get(name).toFixed(3)}`;
  for (const name of names) {
    const info = said.get(name)?.info;
    const status = info?.status ?? (said.has(name) ? "–" : "…");
    const shown = [status, count(points.get(name) ?? info?.points_count ?? 0), bytes(ram.get(name)), bytes(disk.get(name)), measured(name)];
    const { cells } = rowOf(name);
    cells.forEach((cell, at) => { if (cell.textContent !== shown[at]) cell.textContent = shown[at]; });
    cells[0].className = status === "red" ? "alarm" : "";
    cells[0].title = status === "…" ? "loaded in its turn, or once it is in view" : reasonOf(name) ?? "";
  }
  if (chosen && !names.includes(chosen)) await choose(chosen);
  if (chosen) await showCollection(chosen);
}

async function choose(name) {
  chosen = chosen === name ? null : name;
  if (chosen) await showCollection(chosen).catch(trouble);
  else el("collection").replaceChildren();
}

function reasonOf(name) {
  return said.get(name)?.info?.optimizer_status?.error ?? null;
}

async function showCollection(name) {
  const reason = reasonOf(name);
  // Of one that is closed there is nothing more to be told.
  const { result } = await ask(`${pathOf(name)}/memory`).catch((error) => {
    if (reason === null) throw error;
    return { result: { components: [], segments: [] } };
  });
  const division = reason === null ? await divisionOf(pathOf(name)) : "";
  // Another one was chosen meanwhile, or none.
  if (name !== chosen) return;
  const rows = new Map();
  for (const c of result.components) {
    // A vector without a name.
    const label = `${c.component.replace(/ ``$/, "")} · ${c.kind}`;
    const row = rows.get(label) ?? { ram: 0, disk: 0 };
    row.ram += c.heap_bytes + c.pinned_bytes;
    row.disk += c.disk_bytes;
    rows.set(label, row);
  }
  const components = [...rows].map(([label, row]) => make("tr", {},
    make("td", {}, label), make("td", { class: "n" }, bytes(row.ram)), make("td", { class: "n" }, bytes(row.disk)), make("td", {}, where(row))));
  const indexes = result.segments.flatMap((s) => s.vectors.map((v) => make("tr", {},
    make("td", {}, `${s.segment}`), make("td", { class: "n" }, count(s.rows)), make("td", { class: "n" }, count(s.deleted)),
    make("td", {}, v.index), make("td", {}, v.parts.map((p) => `${p.part}: ${p.placement}`).join(", ")))));
  el("collection").replaceChildren(
    ...(reason === null ? [] : [make("h3", {}, `${name} is red`), make("p", { class: "alarm" }, reason)]),
    ...(division ? [make("p", {}, division)] : []),
    make("h3", {}, `${name}: what is in RAM, what is on disk`),
    make("table", {}, head("part", "n:in RAM", "n:on disk", ""), make("tbody", {}, ...components)),
    make("h3", {}, "Segments"),
    make("table", {}, head("segment", "n:rows", "n:deleted", "index", "parts"), make("tbody", {}, ...indexes)),
    make("p", {}, make("button", { type: "button", onclick: () => browse(name) }, "Look at its points")),
    handles(name),
  );
}

function browse(name) {
  pointsShowOf(name);
  el("points-title").scrollIntoView();
}

function head(...names) {
  const cells = names.map((n) => (n === "" ? make("td") : n.startsWith("n:") ? make("th", { class: "n" }, n.slice(2)) : make("th", {}, n)));
  return make("thead", {}, make("tr", {}, ...cells));
}

function where({ ram, disk }) {
  if (ram === 0) return "on disk: read as needed";
  if (disk === 0) return "in RAM only";
  return ram >= disk * 0.9 ? "in RAM, a copy on disk" : "partly in RAM, as there is room";
}

// ---- search

function offer(select, names) {
  const had = select.value;
  const same = names.length === select.options.length && names.every((n, i) => select.options[i].value === n);
  if (same) return;
  select.replaceChildren(...names.map((n) => make("option", { value: n }, n === "" ? "(default)" : n)));
  if (names.includes(had)) select.value = had;
  select.dispatchEvent(new Event("change", { bubbles: true }));
}

let touched = false;

async function offerUsing() {
  const form = document.forms.search.elements;
  const by = form.by.value;
  el("what-label").textContent = { text: "Words", id: "Id", vector: 'Numbers, or {"indices": [1], "values": [0.5]}', scroll: "Nothing" }[by];
  form.what.disabled = by === "scroll";
  el("what-box").hidden = by === "scroll";
  el("using-label").hidden = by === "scroll";
  el("using-label").firstChild.textContent = by === "text" ? "Field " : "Vector ";
  const name = form.collection.value;
  if (!name || by === "scroll") return;
  const { result } = await ask(pathOf(name));
  // Something else was chosen meanwhile.
  if (form.by.value !== by || form.collection.value !== name) return;
  if (by === "text") {
    const ranked = Object.entries(result.payload_schema).filter(([, s]) => s.data_type === "text" && s.params?.scoring);
    // Without words to rank there is nothing to type: ids are what every collection has.
    if (ranked.length === 0 && !touched) {
      form.by.value = "id";
      return offerUsing();
    }
    offer(form.using, ranked.map(([field]) => field));
  } else {
    const { vectors, sparse_vectors: sparse } = result.config.params;
    // A vector may have the name `size`.
    const dense = typeof vectors?.size === "number" ? [""] : Object.keys(vectors ?? {});
    offer(form.using, [...dense, ...Object.keys(sparse ?? {})]);
  }
}

function requestOf(form) {
  const { by, what, using, limit, filter } = form;
  const request = { limit: Number(limit.value), with_payload: true };
  if (filter.value.trim()) request.filter = exact(filter.value);
  if (by.value === "text") request.query = { text: what.value };
  if (by.value === "id") request.query = idOf(what.value);
  if (by.value === "vector") request.query = JSON.parse(/^\s*[[{]/.test(what.value) ? what.value : `[${what.value}]`);
  if (by.value !== "scroll" && using.value) request.using = using.value;
  if (by.value === "text") {
    if (!using.value) throw new Error("this collection has no text index with `scoring`: words can't be ranked");
  }
  return request;
}

// The address keeps the search: it can be kept or sent to somebody.
function keepInAddress(form) {
  const fields = ["collection", "by", "using", "what", "limit", "filter"].filter((field) => form[field].value);
  history.replaceState(null, "", `#${new URLSearchParams(fields.map((field) => [field, form[field].value]))}`);
}

async function search(event) {
  event?.preventDefault();
  const form = document.forms.search.elements;
  keepInAddress(form);
  el("hits").replaceChildren();
  showExplain();
  try {
    const request = { ...requestOf(form), params: { explain: true } };
    const path = `${pathOf(form.collection.value)}/points/query`;
    el("asked").hidden = false;
    document.querySelector("#asked pre").textContent = `POST ${path}\n${written(request, 2)}`;
    const { result, time, explain } = await ask(path, request, "exact");
    showExplain(explain);
    el("search-said").textContent = `${result.points.length} points in ${(time * 1000).toFixed(2)} ms`;
    el("search-said").className = "";
    el("hits").replaceChildren(...result.points.map(showHit));
  } catch (e) {
    el("search-said").textContent = e.message;
    el("search-said").className = "alarm";
  }
}

// `/dashboard#collection=books&by=text&using=body&what=words` is a search that can be kept or sent to somebody.
async function searchAsLinked() {
  const linked = new URLSearchParams(location.hash.slice(1));
  if (!linked.has("collection")) return;
  const form = document.forms.search.elements;
  touched = true;
  const names = await collectionNames();
  linkWaits = false;
  offer(form.collection, names);
  for (const field of ["collection", "by"]) if (linked.has(field)) form[field].value = linked.get(field);
  await offerUsing();
  for (const field of ["using", "what", "limit", "filter"]) if (linked.has(field)) form[field].value = linked.get(field);
  await search();
}

// Where the time of a search went, one step after the other.
const STEPS = { admission: "reading the request", memory_wait: "waiting for memory", queue: "waiting for a thread", search: "searching", fetch: "fetching payloads", encode: "writing", other: "the rest" };

const STAGES = { filter: "resolving the filter", centroids: "ranking centroids", positions: "finding positions", codes: "comparing codes", rows: "comparing vectors", lists: "lists", payloads: "asking payloads", other: "the rest" };

function showExplain(explain) {
  const us = explain?.time_us;
  el("timeline").hidden = !us;
  const parts = us ? Object.entries(STEPS).map(([step, name]) => ({ name, bytes: us[step] })).filter((p) => p.bytes > 0) : [];
  const told = (us) => `${(us / 1000).toFixed(2)} ms`;
  if (us) drawBar(el("timeline"), parts, parts.reduce((all, p) => all + p.bytes, 0), told);
  el("timeline-legend").replaceChildren(...parts.map((p) => make("li", {}, make("i", { class: colour(p.name) }), `${p.name} ${told(p.bytes)}`)));
  const stages = (explain?.stages ?? []).map((s) => `${STAGES[s.stage] ?? s.stage} ${told(s.time_us)}${s.reads ? ` (${count(s.reads)} reads, ${bytes(s.read_bytes)}, waited ${told(s.read_wait_us)})` : ""}`);
  const counts = explain ? [`${count(explain.disk_reads)} reads, ${bytes(explain.disk_bytes)}, waited ${told(us.read_wait)}; ${count(explain.codes_scanned)} codes and ${count(explain.rows_scored)} rows compared in ${explain.segments_count} parts`] : [];
  const within = stages.length ? [`within the search: ${stages.join(", ")}`] : [];
  const shards = explain?.shards ? [`answers of shards: ${explain.shards.map((s) => `${s.shard} after ${told(s.waited_us)}`).join(", ")}`] : [];
  el("meaning").replaceChildren(...[...counts, ...within, ...shards, ...(explain?.meaning ?? [])].map((line) => make("li", {}, line)));
}

function showHit(hit) {
  const title = [hit.payload?.title, hit.payload?.name].find((t) => ["string", "number", "bigint"].includes(typeof t));
  return make("li", {},
    make("b", {}, title === undefined ? `${hit.id}` : `${title}`), " ",
    make("span", { class: "quiet" }, `id ${hit.id}, score ${hit.score.toFixed(4)}`),
    make("code", {}, written(hit.payload ?? {}).slice(0, 600)));
}

// ---- the loop

function trouble(e) {
  el("trouble").hidden = false;
  const expired = /ExpiredSignature/.test(e.message) ? ": this token has expired, a new one is needed" : "";
  el("trouble").textContent = e instanceof Refused ? `${e.message}${expired} (${e.status})` : `The server doesn't answer: ${e.message}`;
  if (e instanceof Refused && (e.status === 401 || e.status === 403)) el("key-form").hidden = false;
}

function showServer(samples) {
  const uptime = samples.find((s) => s.name === "ramlet_uptime_seconds")?.value ?? 0;
  const version = (name) => samples.find((s) => s.name === name)?.labels.version;
  el("about").textContent = `version ${version("ramlet_info")}, API ${version("app_info")}, up ${since(uptime)}`;
  showLive(samples);
}

async function poll(once) {
  try {
    // Whoever may see no collection at all is told so by this one.
    const names = await collectionNames();
    const [memory, metrics] = await Promise.all([orRefused(ask("/memory")), orRefused(ask("/metrics", undefined, "text"))]);
    const samples = metrics === null ? null : parseMetrics(metrics);
    el("live-said").textContent = samples ? "" : NO_ACCESS;
    el("ram-parts").hidden = !memory;
    if (memory) showMemory(memory.result);
    else el("ram-sum").textContent = NO_ACCESS;
    if (samples) showServer(samples);
    await showNodes();
    await showCollections(names, samples ?? []);
    await showQuestions(samples);
    el("trouble").hidden = true;
  } catch (e) {
    trouble(e);
  }
  if (once !== true) setTimeout(poll, document.hidden ? 5 * POLL_MS : POLL_MS);
}

function since(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

el("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(el("key").value);
  el("key-form").hidden = true;
  if (linkWaits) searchAsLinked().catch(trouble);
});
document.forms.search.addEventListener("submit", search);
document.forms.search.elements.collection.addEventListener("change", () => offerUsing().catch(trouble));
document.forms.search.elements.by.addEventListener("change", () => {
  touched = true;
  offerUsing().catch(trouble);
});
startManage(() => poll(true));
startPoints(async (collection, id, using) => {
  const form = document.forms.search.elements;
  touched = true;
  form.collection.value = collection;
  form.by.value = "id";
  await offerUsing();
  if (using !== undefined) form.using.value = using;
  form.what.value = `${id}`;
  await search();
  el("search-title").scrollIntoView();
});
searchAsLinked().catch(trouble);
poll();
