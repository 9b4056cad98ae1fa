"use strict";
// The frame of the page: views, the span and table that are chosen, and what is read.

const SHOW = { overview: showOverview, transactions: showTransactions, transaction: showTransaction, changes: showChanges, history: showHistory };
const POLL_MS = 400;
const byId = (id) => document.getElementById(id);

class Page {
  constructor() {
    this.source = sourceOfPage();
    this.tables = [];
    this.leaving = [];
    this.request = new AbortController();
  }

  get signal() { return this.request.signal; }

  /** Call a function when another state is shown. */
  onleave(act) { this.leaving.push(act); }

  async start() {
    window.addEventListener("hashchange", () => this.show());
    if (!this.source.isFrozen) document.addEventListener("keydown", (event) => this.key(event));
    for (;;) {
      let now;
      try { now = await this.source.state(); } catch (error) { this.fail(error); return; }
      this.about(now);
      if (now.ready) { this.info = now; break; }
      const share = now.total_bytes ? ` ${Math.min(99, Math.floor((100 * now.bytes) / now.total_bytes))} %` : "";
      fill(byId("status"), `Reading the logs:${share} (${bytesText(now.bytes)})`, el("progress", now.total_bytes ? { max: now.total_bytes, value: now.bytes, "aria-label": "Reading" } : { "aria-label": "Reading" }));
      await new Promise((done) => setTimeout(done, POLL_MS));
    }
    fill(byId("status"), this.info.error ? el("span", { class: "error" }, "Reading stopped: ", printable(this.info.error), this.info.can_skip ? ". Start binlake ui with --on-error skip to continue after the damage." : null) : null);
    this.show();
  }

  about({ files, filters, bytes, read_at: readAt }) {
    const names = files.count === 1 ? files.first : `${files.first} to ${files.last}`;
    byId("title").textContent = printable(names);
    document.title = `${printable(names)} – binlake`;
    fill(byId("about"), [counted(files.count, "file"), bytes ? bytesText(bytes) : null, "times are UTC", readAt ? `read at ${readAt}` : null, ...(filters || []).map(printable)].filter(Boolean).join(" · "));
  }

  /** Remember the tables that a timeline of everything has. */
  seen(found) {
    if (found.sums.length >= this.tables.length) this.tables = found.sums.map((one) => one.table);
    const list = byId("scope-tables");
    if (list) fill(list, this.tables.slice(0, 1000).map((one) => el("option", { value: one })));
  }

  zoom(since, until) {
    go({ since: since === null ? "" : String(Math.max(0, since)), until: until === null ? "" : String(Math.max(0, until)), after: "", offset: "" });
  }

  async show() {
    this.request.abort();
    this.request = new AbortController();
    for (const act of this.leaving.splice(0)) act();
    const { signal } = this, state = stateOf(location.hash), main = byId("main");
    if (this.source.isFrozen) state.view = "overview";
    if (this.view !== state.view) window.scrollTo(0, 0);
    const isNew = this.view !== undefined && this.view !== state.view;
    this.view = state.view;
    this.frame(state);
    if (isNew) main.focus({ preventScroll: true });
    main.setAttribute("aria-busy", "true");
    try {
      await SHOW[state.view](main, state, this);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof Failure)) throw error;
      fill(main, el("p", { class: "error", role: "alert" }, printable(error.message)));
    } finally {
      if (!signal.aborted) main.removeAttribute("aria-busy");
    }
  }

  frame(state) {
    const links = Object.entries(VIEWS).map(([view, name]) => link({ view, keys: [] }, name, {
      "aria-current": state.view === view || (view === "transactions" && state.view === "transaction") ? "page" : null }));
    fill(byId("views"), this.source.isFrozen ? null : [links, button("Code", () => showCode(), { class: "primary", title: "Code or undo SQL for what is shown (c)" })]);
    const scope = byId("scope");
    scope.hidden = state.view === "transaction" || state.view === "history";
    if (scope.hidden) { fill(scope); return; }
    const shown = (value) => (value ? timeText(Number(value), Number(value) % 1e6 ? 1 : 1e6) : "");
    const since = el("input", { id: "since", value: shown(state.since), placeholder: "beginning", autocomplete: "off" });
    const until = el("input", { id: "until", value: shown(state.until), placeholder: "end", autocomplete: "off" });
    const name = el("input", { id: "table", value: state.table, list: "scope-tables", placeholder: "all", autocomplete: "off", spellcheck: "false" });
    const apply = (event) => {
      event.preventDefault();
      const [from, to] = [since, until].map((input) => {
        const us = typedUs(input.value);
        input.setCustomValidity(us === undefined ? "Expected a time like 2026-11-21 14:00:00, UTC" : "");
        return us;
      });
      if (from !== null && to !== null && from !== undefined && to !== undefined && from >= to) until.setCustomValidity("The end is not after the beginning");
      if (!event.target.reportValidity()) return;
      go({ since: from === null ? "" : from, until: to === null ? "" : to, table: name.value.trim(), after: "", offset: "" });
    };
    const clears = (event) => event.target.setCustomValidity("");
    for (const input of [since, until]) input.addEventListener("input", clears);
    fill(scope, el("form", { onsubmit: apply, novalidate: true },
      el("label", { for: "since" }, "From", since), el("label", { for: "until" }, "Until", until),
      el("label", { for: "table", class: "grow" }, "Table", name), el("datalist", { id: "scope-tables" }, this.tables.slice(0, 1000).map((one) => el("option", { value: one }))),
      el("button", { type: "submit" }, "Apply"),
      state.since || state.until || state.table ? link({ since: "", until: "", table: "", after: "", offset: "" }, "Show everything", { class: "reset" }) : null));
  }

  fail(error) {
    fill(byId("status"), el("span", { class: "error", role: "alert" }, printable(error.message)));
  }

  /** Keys of the whole page, where no one is typing. */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input,select,textarea,dialog")) return;
    const views = Object.keys(VIEWS), place = "1234".indexOf(event.key);
    if (place >= 0) go({ view: views[place], keys: [] });
    else if (event.key === "c" && this.info) showCode();
    else if (event.key === "/" && stateOf(location.hash).view === "changes") { event.preventDefault(); byId("where").focus(); }
    else if (event.key === "/") go({ view: "changes", keys: [] });
  }
}

new Page().start();
