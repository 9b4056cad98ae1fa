"use strict";
// Row changes with their values before and after: the search, and the history of a row.

function valueOf(value) {
  if (value === undefined) return el("em", null, "not logged");
  return value === null ? el("em", null, "NULL") : el("code", null, printable(value));
}

/** The columns of a change: of an update those that changed, the others on demand. */
function valueTable(op, columns) {
  const heads = op === "update" ? ["column", "before", "after"] : ["column", "value"];
  const line = ([name, before, after]) => el("tr", null, el("th", { scope: "row" }, printable(name)),
    op === "insert" ? null : el("td", { class: "old" }, valueOf(before)), op === "delete" ? null : el("td", { class: "new" }, valueOf(after)));
  return el("div", { class: "scroll" }, el("table", { class: "values" },
    el("thead", null, el("tr", null, heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", null, columns.map(line))));
}

function changeCard(row, { place = true } = {}) {
  const names = [...new Set([...Object.keys(row.before || {}), ...Object.keys(row.after || {})])];
  const columns = names.map((name) => [name, (row.before || {})[name], (row.after || {})[name]]);
  const changed = row.op === "update" ? columns.filter(([, before, after]) => before !== after) : columns;
  const same = row.op === "update" ? columns.filter(([, before, after]) => before === after) : [];
  const full = `${row.database}.${row.table}`;
  const key = row.key ? Object.entries(row.key) : [];
  return el("article", { class: `change ${row.op}` },
    el("h3", null, el("span", { class: "op" }, row.op), " ", printable(full),
      key.length ? [" ", link({ view: "history", table: full, keys: key.map(([name, value]) => `${name}=${value}`) }, key.map(([name, value]) => `${printable(name)} = ${oneLine(value, 60)}`).join(", "), { title: "The history of this row" })] : null),
    place ? el("p", { class: "soft" }, stampText(row.ts), " · ", link({ view: "transaction", at: placeOf(row) }, el("code", null, printable(placeOf(row)))), row.thread_id === null ? null : ` · thread ${row.thread_id}`) : null,
    place && row.query ? el("pre", null, oneLine(row.query, 600)) : null,
    changed.length ? valueTable(row.op, changed) : note("No column has another value."),
    same.length ? el("details", null, el("summary", null, `${counted(same.length, "unchanged column")}`), valueTable("insert", same.map(([name, , after]) => [name, undefined, after]))) : null);
}

async function showChanges(main, state, page) {
  const where = el("input", { id: "where", name: "where", type: "search", value: state.where, placeholder: "state = 'paid' AND changed(total)", spellcheck: "false", autocomplete: "off" });
  const op = el("select", { id: "op", name: "op" }, [["", "all"], ["insert", "inserts"], ["update", "updates"], ["delete", "deletes"]].map(([value, text]) => el("option", { value, selected: value === state.op }, text)));
  const search = (event) => { event.preventDefault(); go({ where: where.value.trim(), op: op.value, offset: "" }); };
  const found = el("div", null, note("Reading…"));
  fill(main, section("Search row changes",
    el("form", { class: "search", onsubmit: search },
      el("label", { for: "where", class: "grow" }, "Condition", where), el("label", { for: "op" }, "Operations", op), el("button", { type: "submit", class: "primary" }, "Search")),
    note("Column names and values as in a WHERE of MySQL. before.COLUMN and after.COLUMN name an image; changed(COLUMN) is true where an update changed it.")), found);
  const answer = await page.source.get("rows", { ...scopeOf(state), op: state.op, where: state.where, offset: state.offset }, page.signal).catch((error) => {
    if (error instanceof Failure) fill(found, el("p", { class: "error", role: "alert" }, printable(error.message)));
    else throw error;
  });
  if (!answer) return;
  const { rows, offset } = answer;
  fill(found, remarks(answer.remarks),
    rows.length ? note(`Row changes ${countText(offset + 1)} to ${countText(offset + rows.length)} in the order of the log${answer.more || answer.limit ? "; there are more" : ""}.`) : note("No row change matches."),
    rows.map((row) => changeCard(row)),
    answer.limit ? note(`The page shows the first ${countText(answer.limit)}: narrow the time or the condition to see others.`) : null,
    pagesOf(offset, rows.length, answer.more));
}

async function showHistory(main, state, page) {
  const tables = page.tables;
  const name = el("input", { id: "history-table", list: "tables", required: true, value: state.table, placeholder: "shop.orders", spellcheck: "false", autocomplete: "off" });
  const key = el("input", { id: "history-key", required: true, value: state.keys.join(", "), placeholder: "4711, or order_id=4711, line=1", spellcheck: "false", autocomplete: "off" });
  const find = (event) => { event.preventDefault(); go({ table: name.value.trim(), keys: key.value.split(",").map((text) => text.trim()).filter(Boolean) }); };
  const found = el("div");
  fill(main, section("History of a row",
    el("form", { class: "search", onsubmit: find },
      el("label", { for: "history-table", class: "grow" }, "Table", name), el("datalist", { id: "tables" }, tables.map((one) => el("option", { value: one }))),
      el("label", { for: "history-key", class: "grow" }, "Key", key), el("button", { type: "submit", class: "primary" }, "Show")),
    note("The values of the primary key in its order, or COLUMN=VALUE. The history covers all of the log, whatever the span is.")), found);
  if (!state.table || !state.keys.length) return;
  fill(found, note("Reading…"));
  const answer = await page.source.get("history", { table: state.table, keys: state.keys }, page.signal).catch((error) => {
    if (error instanceof Failure) fill(found, el("p", { class: "error", role: "alert" }, printable(error.message)));
    else throw error;
  });
  if (!answer) return;
  const told = Object.entries(answer.key).map(([column, value]) => `${column} = ${value}`).join(", ");
  fill(found, remarks(answer.remarks),
    el("h2", null, printable(answer.table), ", ", printable(told || state.keys.join(", "))),
    note(answer.changes ? `${counted(answer.changes, "change")}${answer.lives > 1 ? ` of ${answer.lives} rows that had the key in turn` : ""}.` : "No change of a row with this key."),
    answer.left_out ? note(`The newest ${countText(answer.entries.length)} are shown; ${countText(answer.left_out)} older ones are not.`) : null,
    el("ol", { class: "history" }, answer.entries.map(historyEntry)));
}

function historyEntry(entry) {
  const isChange = entry.number !== null;
  const columns = isChange ? entry.changed.map((one) => [one.name, one.old, one.new]) : [];
  return el("li", null, el("article", { class: `change ${entry.op}` },
    el("h3", null, isChange ? `${entry.number}. ` : "", el("span", { class: "op" }, entry.op === "ddl" ? "DDL" : entry.op), " ", stampText(entry.ts)),
    el("p", { class: "soft" }, link({ view: "transaction", at: placeOf(entry), keys: [] }, el("code", null, printable(placeOf(entry)))),
      entry.thread_id === null ? null : ` · thread ${entry.thread_id}`, entry.user ? ` · ${printable(entry.user)}` : null, entry.gtid ? [" · ", el("code", { class: "gtid" }, entry.gtid)] : null),
    entry.query ? el("pre", null, printable(entry.query)) : null,
    columns.length ? valueTable(entry.op, columns) : null,
    isChange && entry.absent.length ? note(`${entry.op === "update" ? "Unchanged or not logged" : "Not logged"}: ${printable(entry.absent.join(", "))}`) : null,
    isChange ? el("p", null, button("Undo from here", () => showCode({ kind: "undo", point: String(entry.number) }), { class: "small" })) : null));
}
