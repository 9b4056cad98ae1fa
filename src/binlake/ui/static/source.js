"use strict";
// Where data comes from: the server, or an element of the page that has all of it.

class Failure extends Error {}

/** Asks the server of `binlake ui`. */
class LiveSource {
  get isFrozen() { return false; }

  async get(name, fields, signal) {
    const query = new URLSearchParams();
    for (const [field, value] of Object.entries(fields || {})) {
      for (const one of Array.isArray(value) ? value : [value]) if (one !== "" && one !== undefined && one !== null) query.append(field === "keys" ? "key" : field, one);
    }
    let answer;
    try {
      answer = await fetch(`/api/${name}?${query}`, { signal, credentials: "same-origin" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Failure("binlake ui does not answer. Is it still running?");
    }
    if (answer.status === 403) throw new Failure("binlake ui was started again. Open the address that it printed.");
    const found = await answer.json().catch((error) => {
      if (error.name === "AbortError") throw error;
      return {};  // an error without a sentence
    });
    if (!answer.ok) throw new Failure(found.error || `binlake ui answered ${answer.status}`);
    return found;
  }

  state(signal) { return this.get("state", {}, signal); }
  timeline(state, signal) { return this.get("timeline", scopeOf(state), signal); }
  summary(state, signal) { return this.get("summary", scopeOf(state), signal); }
}

/** Has the data of `binlake stats --html`. */
class FrozenSource {
  constructor(data) { this.data = data; }
  get isFrozen() { return true; }

  async state() { return this.data.state; }
  async summary() { return this.data.summary; }

  /** The bars of a span: those of the whole log, added up where they are many. */
  async timeline(state) {
    const all = this.data.timeline, width = all.width_us;
    const since = state.since ? Number(state.since) : -Infinity, until = state.until ? Number(state.until) : Infinity;
    const shown = all.starts.map((start, i) => i).filter((i) => all.starts[i] + width > since && all.starts[i] < until);
    if (!shown.length) return { ...all, starts: [], tables: [], sums: [] };
    const span = all.starts[shown.at(-1)] - all.starts[shown[0]];
    const wide = width * Math.max(1, Math.ceil(span / width / 400));
    const starts = [...new Set(shown.map((i) => Math.floor(all.starts[i] / wide) * wide))];
    const place = new Map(starts.map((start, i) => [start, i]));
    const chosen = all.tables.filter((one) => !state.table || one.table === state.table);
    const summed = (columns) => Object.fromEntries(MEASURES.map((name) => {
      const sums = starts.map(() => 0);
      for (const i of shown) sums[place.get(Math.floor(all.starts[i] / wide) * wide)] += columns[name][i];
      return [name, sums];
    }));
    const tables = chosen.map((one) => ({ ...one, ...summed(one) }));
    const whole = shown.length === all.starts.length && !state.table;
    const sums = whole ? all.sums : tables.map((one) => ({
      table: one.table === null ? `${countText(one.count)} other tables` : one.table,
      ...Object.fromEntries(MEASURES.map((name) => [name, one[name].reduce((a, b) => a + b, 0)])) }));
    const total = state.table && tables.length ? tables[0] : summed(all.total);
    return { width_us: wide, starts, total, tables, sums: sums.filter((one) => one.transactions) };
  }
}

const MEASURES = ["transactions", "bytes", "inserts", "updates", "deletes"];

function sourceOfPage() {
  const data = document.getElementById("data");
  return data ? new FrozenSource(JSON.parse(data.textContent)) : new LiveSource();
}
