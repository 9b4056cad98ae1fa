"use strict";
// What the page shows is in the fragment of its address, so a link shows the same again.

const VIEWS = { overview: "Overview", transactions: "Transactions", changes: "Changes", history: "Row history" };
const FIELDS = ["since", "until", "table", "op", "measure", "by", "order", "where", "at", "after", "offset"];
/** Fields that every view keeps. */
const SCOPE = ["since", "until", "table"];

function stateOf(hash) {
  const [view, query] = hash.replace(/^#/, "").split("?", 2);
  const given = new URLSearchParams(query || "");
  const state = { view: VIEWS[view] || view === "transaction" ? view : "overview", keys: given.getAll("key") };
  for (const name of FIELDS) state[name] = given.get(name) || "";
  for (const name of ["since", "until", "offset"]) if (!/^\d{1,16}$/.test(state[name])) state[name] = "";
  return state;
}

/** The fragment of the state now with some changes; another view keeps the scope only. */
function hashOf(changes) {
  const now = stateOf(location.hash);
  const kept = !changes.view || changes.view === now.view ? now : Object.fromEntries(SCOPE.map((name) => [name, now[name]]));
  const state = { ...kept, view: now.view, ...changes };
  const query = new URLSearchParams();
  for (const name of FIELDS) if (state[name] !== undefined && state[name] !== "" && state[name] !== null) query.set(name, state[name]);
  for (const key of state.keys || []) query.append("key", key);
  const text = query.toString();
  return `#${state.view}${text ? "?" + text : ""}`;
}

function go(changes) {
  location.hash = hashOf(changes);
}

/** The fields of a request for the span and tables of a state. */
function scopeOf(state) {
  return Object.fromEntries(SCOPE.filter((name) => state[name]).map((name) => [name, state[name]]));
}
