"use strict";
// Transactions: pages of them, and one with its statements and row changes.

function placeOf(row) {
  return `${row.file}:${row.pos}`;
}

/** Transactions as a table; each leads to its own view. */
function transactionTable(rows, source) {
  const names = (tables) => (Array.isArray(tables) ? tables : Object.keys(tables));
  const columns = [
    ["committed (UTC)", (row) => stampText(row.commit_ts), "t"],
    ["row changes", (row) => countText(row.inserts === null ? null : row.inserts + row.updates + row.deletes), "n"],
    ["tables", (row) => { const all = names(row.tables); return all.length ? oneLine(all.slice(0, 3).join(", "), 90) + (all.length > 3 ? ` and ${all.length - 3} more` : "") : "–"; }],
    ["bytes", (row) => bytesText(row.bytes), "n"],
    ["took", (row) => (row.duration_us ? spanText(row.duration_us) : "–"), "n"],
    ["thread", (row) => (row.thread_id === null ? "–" : String(row.thread_id)), "n"],
    ["position", (row) => { const text = printable(placeOf(row)); return source.isFrozen ? el("code", null, text) : link({ view: "transaction", at: placeOf(row) }, el("code", null, text)); }, "t"],
    ["GTID", (row) => (row.gtid ? el("code", { class: "gtid" }, row.gtid) : "–"), "t"],
  ];
  return table("Transactions", columns, rows, source.isFrozen ? null : (row) => hashOf({ view: "transaction", at: placeOf(row) }));
}

async function showTransactions(main, state, page) {
  fill(main, note("Reading…"));
  const found = await page.source.get("transactions", { ...scopeOf(state), after: state.after }, page.signal);
  const rows = found.transactions;
  const pages = el("nav", { class: "pages", "aria-label": "Pages" },
    state.after ? link({ after: "" }, "First page") : null,
    found.next ? link({ after: found.next }, "Next page", { rel: "next" }) : null);
  fill(main, remarks(found.remarks),
    section("Transactions, in the order of the log",
      rows.length ? transactionTable(rows, page.source) : note("No transactions here."),
      rows.length ? note(`${counted(rows.length, "transaction")} shown.${found.next ? " There are more." : ""}`) : null, pages));
}

async function showTransaction(main, state, page) {
  fill(main, note("Reading…"));
  const found = await page.source.get("transaction", { at: state.at, offset: state.offset }, page.signal);
  const facts = [
    ["committed", `${stampText(found.commit_ts)} UTC`], ["took", found.duration_us ? spanText(found.duration_us) : null],
    ["position", `${placeOf(found)} to ${found.end_pos}`], ["GTID", found.gtid], ["size", bytesText(found.bytes)],
    ["inserts", countText(found.inserts)], ["updates", countText(found.updates)], ["deletes", countText(found.deletes)],
    ["tables", found.tables.join(", ")], ["server", String(found.server_id)], ["thread", found.thread_id === null ? null : String(found.thread_id)],
    ["outcome", found.outcome === "committed" ? null : found.outcome], ["XA", found.xa_xid],
  ].filter(([, value]) => value);
  const statements = found.statements.filter((one) => !/^\s*(BEGIN|COMMIT)\s*$/i.test(one.sql));
  const shown = found.offset + found.rows.length;
  fill(main, remarks(found.remarks),
    el("section", null, el("h2", null, "Transaction ", el("code", null, printable(placeOf(found)))),
      el("dl", { class: "facts" }, facts.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, printable(value)))))),
    statements.length ? section(`Statements (${countText(statements.length)}${found.more_statements ? " shown, there are more" : ""})`,
      statements.map((one) => el("div", { class: "statement" },
        note([stampText(one.ts), one.user, one.database, one.error_code ? `error ${one.error_code}` : null].filter(Boolean).map(printable).join(" · ")),
        el("pre", null, printable(one.sql), one.cut ? "…" : null)))) : null,
    section("Row changes",
      found.rows.length ? found.rows.map((row) => changeCard(row, { place: false })) : note("This transaction changed no rows that the log records."),
      found.offset || found.more_rows ? note(`Numbers ${countText(found.offset + 1)} to ${countText(shown)}${found.more_rows ? "; there are more" : ""}.`) : null,
      pagesOf(found.offset, found.rows.length, found.more_rows)));
}

/** Links to the pages of row changes. */
function pagesOf(offset, count, more) {
  if (!offset && !more) return null;
  return el("nav", { class: "pages", "aria-label": "Pages" },
    offset ? link({ offset: "" }, "First page") : null, more ? link({ offset: String(offset + count) }, "Next page", { rel: "next" }) : null);
}
