"use strict";
// The dialog with a program that reads what is on the screen, or the SQL that reverses it.

const PROGRAMS = { command: "Command", python: "Python", spark: "Spark", undo: "Undo SQL" };
let codeRequest = null;

/** The fields of a request for the rows that a view shows. */
function shownFields(state) {
  if (state.view === "transaction") return { at: state.at };
  if (state.view === "history") return { table: state.table, keys: state.keys };
  return { ...scopeOf(state), ...(state.view === "changes" ? { op: state.op, where: state.where } : {}) };
}

function shownText(state) {
  if (state.view === "transaction") return `the transaction ${state.at}`;
  if (state.view === "history" && state.keys.length) return `the row ${state.keys.join(", ")} of ${state.table}`;
  const parts = [];
  if (state.since || state.until) parts.push("this span of time");
  if (state.table) parts.push(state.table);
  if (state.view === "changes" && (state.where || state.op)) parts.push("this condition");
  return parts.length ? `the row changes of ${parts.join(" and ")}` : "all row changes of the log";
}

async function showCode({ kind = "command", point = "" } = {}) {
  const dialog = document.getElementById("code");
  const state = stateOf(location.hash);
  if (codeRequest) codeRequest.abort();
  const request = codeRequest = new AbortController();
  const text = el("pre", { class: "program", tabindex: "0", "aria-label": "Program" }, "Reading…");
  const told = el("div", { "aria-live": "polite" });
  const copy = button("Copy", async () => {
    await navigator.clipboard.writeText(text.textContent);
    copy.textContent = "Copied";
  }, { class: "primary" });
  const save = button("Save", () => saveText(text.textContent, { undo: "undo.sql", command: "command.sh" }[kind] || `${kind}.py`));
  const close = button("Close", () => dialog.close());
  fill(dialog, el("h2", { id: "code-title" }, kind === "undo" ? "Undo " : "Read ", el("span", { class: "soft" }, printable(shownText(state)))),
    choice("Kind", PROGRAMS, kind, (chosen) => showCode({ kind: chosen, point })),
    told, text, el("div", { class: "controls end" }, copy, save, close));
  dialog.onclose = () => request.abort();
  if (!dialog.open) dialog.showModal();
  copy.disabled = save.disabled = true;
  try {
    const fields = { ...shownFields(state), kind, point };
    const found = await new LiveSource().get(kind === "undo" ? "undo" : "code", fields, request.signal);
    text.textContent = found.text || "-- There is nothing to undo.";
    fill(told, kind === "undo" ? note("Statements in reverse order, in one transaction for each transaction of the log. Read them before you run them: binlake never does.") : null,
      remarks(found.remarks), found.cut ? el("p", { class: "error" }, "Only the beginning is shown. Run binlake sql --undo for the whole.") : null);
    copy.disabled = found.cut;
    save.disabled = found.cut;
  } catch (error) {
    if (error.name === "AbortError") return;
    text.textContent = "";
    fill(told, el("p", { class: "error", role: "alert" }, printable(error.message)));
  }
}

function saveText(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
