// The nodes that share a store, as `/cluster` tells of them: who holds which shard, who writes, and how far each is.

import { Refused, ask, bytes, count, el, make } from "./base.js";

const POLLS = 2;
let asked = 0;

const seconds = (ms) => (ms < 1000 ? "just now" : ms < 10_000 ? `${(ms / 1000).toFixed(1)} s ago` : `${Math.round(ms / 1000)} s ago`);

function say(...lines) {
  el("nodes-said").replaceChildren(...lines.flatMap((line) => [line, " "]));
}

// What to do next, if anything.
function nextOf(shards) {
  const empty = shards.filter((s) => s.nodes.length === 0);
  const spare = shards.some((s) => s.nodes.length > 1);
  if (empty.length > 0) {
    const named = `${empty.length === 1 ? "Shard" : "Shards"} ${empty.map((s) => s.shard_id).join(", ")}: no node.`;
    const comes = spare ? " One of a shard with several comes by itself, unless --shard binds it." : "";
    return make("span", { class: "alarm" }, `${named}${comes} ${spare ? "Or start" : "Start"} one with the same --store and an empty directory.`);
  }
  const alone = shards.filter((s) => s.nodes.length === 1).length;
  if (alone === 0 || (spare && shards.length > 1)) return "";
  return shards.length === 1
    ? "Nobody takes over when this node is gone: start another one with the same --store."
    : "Nobody takes over when a node is gone: start one more with the same --store. It goes where it is needed.";
}

function rowsOf(shard, own) {
  const name = (at) => make("td", {}, at === 0 ? `${shard.shard_id}` : "");
  if (shard.nodes.length === 0) return [make("tr", {}, name(0), make("td", { class: "alarm", colspan: 7 }, "no node"))];
  const newest = Math.max(...shard.nodes.map((n) => n.slots_behind)) > 0;
  return shard.nodes.map((node, at) => {
    const isHere = node.peer_id === own;
    const isLink = !isHere && /^https?:\/\//.test(node.uri);
    const where = isLink ? make("a", { href: `${node.uri}/dashboard`, rel: "noreferrer" }, node.uri) : node.uri;
    const lag = node.owns ? "–" : count(node.slots_behind);
    return make("tr", { class: isHere ? "here" : "" },
      name(at), make("td", {}, where, isHere ? " (this one)" : ""), make("td", {}, node.owns ? "writes" : node.role === "build" ? "builds" : "follows"),
      make("td", { class: "n" }, count(node.slot)), make("td", { class: newest && node.slots_behind > 0 ? "n alarm" : "n" }, lag),
      make("td", { class: "n" }, bytes(node.disk_bytes)), make("td", { class: "n" }, bytes(node.memory_bytes)),
      make("td", { class: "n" }, isHere ? "now" : seconds(node.silent_ms)));
  });
}

export async function showNodes() {
  if (asked++ % POLLS > 0) return;
  const told = await ask("/cluster").catch((e) => {
    if (e instanceof Refused && [401, 403].includes(e.status)) return null;
    throw e;
  });
  const store = told?.result.store;
  el("nodes").hidden = !store;
  if (!store) {
    say(told === null ? "Only a key for all collections can see nodes."
      : "This server shares its data with no other. Next: start it with --store s3://bucket/prefix or file:///directory, and then a second one with the same.");
    el("nodes-rows").replaceChildren();
    return;
  }
  const shards = store.shards;
  const total = shards.reduce((all, s) => all + s.nodes.length, 0);
  const divided = shards.length > 1 ? `${shards.length} shards, ` : "";
  // The log here is that of one shard.
  const url = shards.length > 1 ? store.url.replace(/\/shard-\d+$/, "") : store.url;
  say(`${url}: ${divided}${total} ${total === 1 ? "node" : "nodes"}.`, nextOf(shards),
    store.fault ? make("span", { class: "alarm" }, store.fault) : "");
  el("nodes-rows").replaceChildren(...shards.flatMap((s) => rowsOf(s, told.result.peer_id)));
}

// How a collection is divided, for what is told of it.
export async function divisionOf(path) {
  const result = await ask(`${path}/cluster`).then((told) => told.result, () => null);
  if (result === null || result.shard_count < 2 || result.peer_id === 0) return "";
  const here = result.local_shards.map((s) => `shard ${s.shard_id} with ${count(s.points_count)} points`).join(", ");
  return `Divided into ${result.shard_count} shards; this node holds ${here}.`;
}
