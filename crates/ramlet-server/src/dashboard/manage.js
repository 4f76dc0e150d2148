// Collections are made and deleted, given aliases and payload indexes.

import { ask, el, list, make, pathOf } from "./base.js";

const KINDS = ["keyword", "integer", "float", "bool", "datetime", "text", "geo", "uuid"];
let changed = () => {};

export function startManage(whenChanged) {
  changed = whenChanged;
  document.forms.create.addEventListener("submit", create);
}

async function create(event) {
  event.preventDefault();
  const { name, size, distance } = event.target.elements;
  const state = el("create-said");
  try {
    await ask(pathOf(name.value), { vectors: { size: Number(size.value), distance: distance.value } }, "json", "PUT");
    state.className = "";
    state.textContent = `${name.value} is created. Next: send points, by a client or \`ramlet import FILE --collection ${name.value}\``;
    name.value = "";
    changed();
  } catch (e) {
    state.className = "alarm";
    state.textContent = e.message;
  }
}

const shown = new Map();

// What can be done with a collection, under what is told of it. The same elements as long as it is the same one: what is typed stays.
export function handles(name) {
  if (!shown.has(name)) {
    shown.clear();
    shown.set(name, build(name));
  }
  shown.get(name).refresh();
  return shown.get(name).element;
}

function build(name) {
  const state = make("p", { role: "status" });
  const indexes = make("div", {});
  const aliases = make("div", {});
  const act = async (what, done) => {
    try {
      await what();
      state.className = "";
      state.textContent = done;
      await refresh();
    } catch (e) {
      state.className = "alarm";
      state.textContent = e.message;
    }
  };
  const small = (label, title, onclick) => make("button", { type: "button", "aria-label": title, onclick }, label);
  let before = "";
  const refresh = async () => {
    const [info, known] = await Promise.all([ask(pathOf(name)), ask(`${pathOf(name)}/aliases`)]).catch(() => [null, null]);
    // What is the same stays the same elements: the focus stays where it is.
    const now = info && JSON.stringify([info.result.payload_schema, known.result.aliases]);
    if (!info || now === before) return;
    before = now;
    const fields = Object.entries(info.result.payload_schema).map(([field, { data_type: type, points }]) => [`${field}: ${type}, ${points} points `,
      small("remove", `remove the index on ${field}`, () => act(() => ask(`${pathOf(name)}/index/${encodeURIComponent(field)}?wait=true`, undefined, "json", "DELETE"), `the index on ${field} is removed`))]);
    indexes.replaceChildren(fields.length ? list(fields) : "none: filters read payloads");
    const all = known.result.aliases.map(({ alias_name: alias }) => [`${alias} `,
      small("remove", `remove the alias ${alias}`, () => act(() => aliasOp({ delete_alias: { alias_name: alias } }), `the alias ${alias} is gone`))]);
    aliases.replaceChildren(all.length ? list(all) : "none");
  };
  const aliasOp = (action) => ask("/collections/aliases", { actions: [action] });
  const index = make("form", { class: "handle", onsubmit: (event) => {
    event.preventDefault();
    const { field, kind } = event.target.elements;
    act(() => ask(`${pathOf(name)}/index?wait=true`, { field_name: field.value, field_schema: kind.value }, "json", "PUT"), `${field.value} has an index`);
  } },
  make("label", {}, "Field ", make("input", { name: "field", required: "" })),
  make("label", {}, "Type ", make("select", { name: "kind" }, ...KINDS.map((kind) => make("option", {}, kind)))),
  make("button", {}, "Create an index"));
  const alias = make("form", { class: "handle", onsubmit: (event) => {
    event.preventDefault();
    const { alias } = event.target.elements;
    act(() => aliasOp({ create_alias: { collection_name: name, alias_name: alias.value } }), `${alias.value} leads here`);
  } },
  make("label", {}, "Alias ", make("input", { name: "alias", required: "" })), make("button", {}, "Add it"));
  const drop = make("form", { class: "handle", onsubmit: (event) => {
    event.preventDefault();
    if (event.target.elements.sure.value !== name) {
      state.className = "alarm";
      state.textContent = "that isn't the collection's name: nothing was deleted";
      return;
    }
    act(() => ask(pathOf(name), undefined, "json", "DELETE"), `${name} is gone`).then(changed);
  } },
  make("label", {}, "To delete it with all points, type its name ", make("input", { name: "sure", required: "", autocomplete: "off" })), make("button", { class: "danger" }, "Delete the collection"));
  const element = make("div", {}, make("h3", {}, "Payload indexes"), indexes, index, make("h3", {}, "Aliases"), aliases, alias, make("h3", {}, "Delete"), drop, state);
  return { element, refresh };
}
