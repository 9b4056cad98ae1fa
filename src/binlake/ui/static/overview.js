"use strict";
// The first view: what happened, when, in which tables, and which transactions stand out.

const RANKS = { largest_by_bytes: "Most bytes", largest_by_rows: "Most row changes", longest: "Longest" };

async function showOverview(main, state, page) {
  const source = page.source;
  const plot = new Timeline((since, until) => page.zoom(since, until));
  page.onleave(() => plot.remove());
  const head = el("div", { class: "headline" }, note("Counting…"));
  const legend = el("div", { class: "legend", role: "group", "aria-label": "Tables of the timeline" });
  const tables = el("div"), rest = el("div");
  const measure = MEASURE_NAMES[state.measure] ? state.measure : "changes";
  const by = ["table", "operation", "total"].includes(state.by) ? state.by : "table";
  // until the timeline is drawn there is no span to start from, and a press would do nothing
  const moves = [
    button("−", () => plot.scale(2), { "aria-label": "Zoom out", disabled: true }),
    button("+", () => plot.scale(0.5), { "aria-label": "Zoom in", disabled: true }),
    button("←", () => plot.pan(-0.5), { "aria-label": "Earlier", disabled: true }),
    button("→", () => plot.pan(0.5), { "aria-label": "Later", disabled: true }),
  ];
  const controls = el("div", { class: "controls" },
    choice("Measure", MEASURE_NAMES, measure, (value) => go({ measure: value })),
    measure === "transactions" ? null
      : choice("Colours", measure === "changes" ? { table: "By table", operation: "By operation" } : { table: "By table", total: "In total" }, by === "operation" && measure === "bytes" ? "table" : by, (value) => go({ by: value })),
    el("div", { class: "choice zoom", role: "group", "aria-label": "Zoom" }, moves,
      button("All", () => page.zoom(null, null), { "aria-label": "Show all of the log" })));
  fill(main, head, el("section", { "aria-label": "Timeline" }, controls, plot.element, legend), tables, rest);
  const timeline = source.timeline(state, page.signal).then((found) => {
    page.seen(found);
    plot.show(found, state, measure, by);
    for (const move of moves) move.disabled = !plot.plot;
    fill(head, headline(found, null, state, true));
    fill(legend, legendOf(plot, state));
    fill(tables, tablesOf(found, state));
    return found;
  });
  const [found, summary] = await Promise.all([timeline, source.summary(state, page.signal)]);
  const partial = source.isFrozen && (state.since || state.until || state.table);
  fill(head, headline(found, summary, state, partial));
  fill(rest, remarks(summary.remarks), notable(summary, state, source, partial), statementsOf(summary, partial), origins(summary, partial));
}

function legendOf(plot, state) {
  if (!plot.series || plot.series.length < 2) return null;
  return plot.series.map((one) => {
    const mark = el("i");
    mark.style.background = `var(${one.colour})`;
    const name = oneLine(one.name, 60);
    return one.table ? button([mark, name], () => go({ table: state.table === one.table ? "" : one.table }), { class: "key", title: `Show ${name} only`, "aria-pressed": String(state.table === one.table) })
      : el("span", { class: "key" }, mark, name);
  });
}

/** What happened, in a sentence, and as numbers. */
function headline(found, summary, state, partial) {
  const sum = (name) => found.total[name].reduce((a, b) => a + b, 0);
  const exact = partial ? null : summary.total;
  const total = exact || Object.fromEntries(MEASURES.map((name) => [name, sum(name)]));
  const rows = total.inserts + total.updates + total.deletes;
  if (!total.transactions) return el("p", { class: "lead" }, "No transactions here.");
  const largest = found.sums[0];
  const lead = [`${counted(rows, "row change")} in ${counted(total.transactions, "transaction")}`];
  if (!partial && summary.first_ts) {
    const length = stampUs(summary.last_ts) - stampUs(summary.first_ts);
    lead.push(length ? ` within ${spanText(length)}` : "");
  }
  lead.push(".");
  if (largest && rows && !state.table && found.sums.length > 1) {
    const share = Math.round((100 * (largest.inserts + largest.updates + largest.deletes)) / rows);
    lead.push(" Most are in ", el("strong", null, oneLine(largest.table, 80)), share < 100 ? ` (${share} %).` : ".");
  }
  const cards = [
    ...["transactions", ...OPERATIONS].map((name) => [countText(total[name]), total[name] === 1 ? name.slice(0, -1) : name, name]),
    [bytesText(total.bytes), state.table && partial ? "in row events" : "in transactions"], [countText(found.sums.length), found.sums.length === 1 ? "table" : "tables"],
  ];
  if (!partial) {
    for (const [kind, count] of Object.entries(summary.statements)) if (kind !== "BEGIN" && kind !== "COMMIT") cards.push([countText(count), `${kind} statements`]);
    if (summary.uncounted_transactions) cards.push([countText(summary.uncounted_transactions), "transactions without counted rows"]);
  }
  return [
    el("p", { class: "lead" }, lead),
    el("dl", { class: "cards" }, cards.slice(0, 10).map(([value, name, kind]) => el("div", { class: kind }, el("dt", null, name), el("dd", null, value)))),
  ];
}

function tablesOf(found, state) {
  if (!found.sums.length) return null;
  const rows = (one) => one.inserts + one.updates + one.deletes;
  const most = Math.max(...found.sums.map(rows));
  const shown = found.sums.slice(0, 100);
  const columns = [
    ["table", (one) => link({ table: one.table }, oneLine(one.table, 80)), "name"],
    ["row changes", (one) => [el("span", { class: "number" }, countText(rows(one))), meter(OPERATIONS.map((name) => [name, one[name]]), most)], "wide"],
    ["inserts", (one) => countText(one.inserts), "n"], ["updates", (one) => countText(one.updates), "n"],
    ["deletes", (one) => countText(one.deletes), "n"], ["transactions", (one) => countText(one.transactions), "n"],
    ["bytes of rows", (one) => bytesText(one.bytes), "n"],
  ];
  const more = found.sums.length - shown.length;
  return section(state.table ? "Table" : `Tables (${countText(found.sums.length)})`,
    table("Tables", columns, shown, (one) => hashOf({ table: one.table })),
    more > 0 ? note(`${counted(more, "table")} with fewer row changes not shown.`) : null);
}

function notable(summary, state, source, partial) {
  const inside = (row) => !partial || inScope(row.commit_ts, row.tables, state);
  const found = Object.keys(RANKS).filter((rank) => summary[rank].some(inside));
  if (!found.length) return null;
  const chosen = found.includes(state.order) ? state.order : found[0];
  const options = Object.fromEntries(found.map((rank) => [rank, RANKS[rank]]));
  const rows = summary[chosen].filter(inside);
  const most = Number(state.offset) ? rows.length : 10;
  return section("Transactions that stand out",
    el("div", { class: "controls" }, choice("Order", options, chosen, (value) => go({ order: value }))),
    transactionTable(rows.slice(0, most).map((row) => ({ ...row, duration_us: row.duration_seconds * 1e6 })), source),
    rows.length > most ? el("p", null, link({ offset: "1" }, `Show ${rows.length}`)) : null,
    partial ? note("Of the largest of all of the log, those in this span.") : null);
}

function inScope(ts, tables, state) {
  const at = stampUs(ts);
  return (!state.since || at >= Number(state.since)) && (!state.until || at < Number(state.until)) && (!state.table || tables === null || tables.includes(state.table));
}

function statementsOf(summary, partial) {
  const { count, list } = summary.ddl;
  if (!count) return null;
  const columns = [
    ["time (UTC)", (one) => stampText(one.ts), "t"], ["user", (one) => printable(one.user || "unknown"), "t"],
    ["database", (one) => printable(one.database || "–")], ["statement", (one) => el("code", null, oneLine(one.sql, 300)), "sql"],
  ];
  const more = count > list.length ? `The first ${list.length} of ${countText(count)}.` : partial ? "Of all of the log." : "";
  return section("DDL, TRUNCATE and account management", table("Statements", columns, list), more ? note(more) : null);
}

function origins(summary, partial) {
  const lists = [["Connections", "threads", "thread_id", "thread"], ["Servers", "servers", "server_id", "server"]].map(([title, name, key, head]) => {
    const { top, count } = summary[name];
    if (!top.length || (name === "servers" && count < 2)) return null;
    const columns = [[head, (one) => (one[key] === null ? "unknown" : String(one[key])), "t"], ["row changes", (one) => countText(one.rows), "n"], ["transactions", (one) => countText(one.transactions), "n"], ["bytes", (one) => bytesText(one.bytes), "n"]];
    return section(title, table(title, columns, top.slice(0, 10)), count > 10 ? note(`The 10 with the most bytes of ${countText(count)}.`) : null);
  });
  return [el("div", { class: "pair" }, lists), partial && lists.some(Boolean) ? note("Of all of the log.") : null];
}
