"use strict";
// The timeline: stacked bars that zoom. Data and labels come from the server; uPlot draws them.

const COLOURS = 9;
/** With fewer bars than this there is empty time around them, so that one bar is not a block. */
const LEAST_BARS = 24;
const OPERATIONS = ["inserts", "updates", "deletes"];
const MEASURE_NAMES = { changes: "Row changes", bytes: "Bytes", transactions: "Transactions" };

function rowsOf(columns, i) {
  return columns.inserts[i] + columns.updates[i] + columns.deletes[i];
}

/** The series of a plot: names, colours, and a value for each known bar. */
function seriesOf(found, measure, by) {
  const value = { changes: rowsOf, bytes: (c, i) => c.bytes[i], transactions: (c, i) => c.transactions[i] }[measure];
  if (by === "operation" && measure === "changes") {
    return OPERATIONS.map((name) => ({ name, colour: `--${name}`, values: found.total[name] }));
  }
  if (by === "total" || measure === "transactions") {
    return [{ name: MEASURE_NAMES[measure].toLowerCase(), colour: "--c0", values: found.starts.map((_, i) => value(found.total, i)) }];
  }
  return found.tables.map((one, place) => ({
    name: one.table === null ? counted(one.count, "other table") : one.table,
    table: one.table,
    colour: one.table === null ? "--others" : `--c${place % COLOURS}`,
    values: found.starts.map((_, i) => value(one, i)),
  }));
}

/** Every bar of the span, also those in which nothing happened. */
function gridOf(found, state) {
  const width = found.width_us;
  let first = found.starts[0], last = found.starts.at(-1);
  if (state.since) first = Math.min(first, Math.floor(Number(state.since) / width) * width);
  if (state.until) last = Math.max(last, Math.ceil(Number(state.until) / width - 1) * width);
  // outside of a chosen span something may have happened: only time beyond the log is shown empty
  const lacking = LEAST_BARS - ((last - first) / width + 1);
  if (lacking > 0 && !state.since) first -= Math.ceil(lacking / 2) * width;
  if (lacking > 0 && !state.until) last += Math.ceil(lacking / 2) * width;
  const count = Math.min(5000, Math.round((last - first) / width) + 1);
  const place = new Map(found.starts.map((start, i) => [start, i]));
  const starts = Array.from({ length: count }, (_, i) => first + i * width);
  return { width, starts, of: starts.map((start) => place.get(start)) };
}

class Timeline {
  /** `zoom(since, until)` is called with the span that a person chooses, in microseconds. */
  constructor(zoom) {
    this.zoom = zoom;
    this.holder = el("div", { class: "plot" });
    this.readout = el("p", { class: "readout soft", "aria-live": "polite" });
    this.element = el("div", { class: "timeline", tabindex: "0", role: "group",
      "aria-roledescription": "timeline", "aria-keyshortcuts": "+ - ArrowLeft ArrowRight 0",
      onkeydown: (event) => this.key(event) }, this.holder, this.readout);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.holder);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.found && this.show(this.found, this.state, this.measure, this.by);
    this.dark.addEventListener("change", this.redraw);
  }

  remove() {
    this.observer.disconnect();
    this.dark.removeEventListener("change", this.redraw);
    if (this.plot) this.plot.destroy();
  }

  show(found, state, measure, by) {
    Object.assign(this, { found, state, measure, by });
    if (this.plot) this.plot.destroy();
    this.plot = null;
    if (!found.starts.length) {
      fill(this.holder, note("Nothing in this span."));
      this.readout.textContent = "";
      this.element.setAttribute("aria-label", "Timeline: nothing in this span");
      return;
    }
    this.grid = gridOf(found, state);
    this.series = seriesOf(found, measure, by);
    this.draw();
    this.readout.textContent = this.help();
    const { starts, width } = this.grid;
    this.element.setAttribute("aria-label",
      `${MEASURE_NAMES[measure]} from ${timeText(starts[0], width)} to ${timeText(starts.at(-1) + width, width)} UTC, a bar is ${spanText(width)}. Plus and minus zoom, arrows move, 0 shows everything.`);
  }

  help() {
    return `A bar is ${spanText(this.grid.width)}. Drag to zoom in; or use + − ← → 0.`;
  }

  /** Bars on top of one another: the plot draws sums, the largest first. */
  draw() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const { starts, of } = this.grid;
    const sums = starts.map(() => 0);
    const stacked = this.series.map((one) => starts.map((_, i) => (sums[i] += of[i] === undefined ? 0 : one.values[of[i]])));
    const bars = uPlot.paths.bars({ size: [0.92, 60], align: 1, gap: 0 });
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1, size: 4 }, font: "12px system-ui, sans-serif" };
    const size = (text) => (this.measure === "bytes" ? bytesText(text) : shortCount(text));
    fill(this.holder);
    this.plot = new uPlot({
      width: Math.max(200, this.holder.clientWidth), height: this.height(),
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      legend: { show: false },
      padding: [10, 8, 0, 0],
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 6 } },
      scales: { x: { time: true, range: () => [starts[0] / 1e6, (starts.at(-1) + this.grid.width) / 1e6] }, y: { range: (_, __, most) => [0, Math.max(most, 1) * 1.04] } },
      axes: [
        { ...axis, grid: { show: false }, space: 80, values: timeLabels },
        { ...axis, size: 64, incrs: this.measure === "bytes" ? undefined : [1, 2, 5].flatMap((n) => Array.from({ length: 13 }, (_, e) => n * 10 ** e)).sort((a, b) => a - b), values: (_, values) => values.map(size) },
      ],
      series: [{}, ...[...this.series].reverse().map((one) => ({ label: one.name, fill: colour(one.colour), stroke: colour(one.colour), width: 0, paths: bars, points: { show: false } }))],
      hooks: {
        setCursor: [(plot) => this.say(plot)],
        setSelect: [(plot) => this.chosen(plot)],
      },
    }, [starts.map((start) => start / 1e6), ...stacked.reverse()], this.holder);
    this.plot.over.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  height() {
    return window.innerWidth < 640 ? 190 : 260;
  }

  resize() {
    if (this.plot && this.holder.clientWidth > 50) this.plot.setSize({ width: this.holder.clientWidth, height: this.height() });
  }

  /** Say what the bar under the pointer has. */
  say(plot) {
    const { starts, of, width } = this.grid;
    if (plot.cursor.left < 0) { this.readout.textContent = this.help(); return; }
    const bar = Math.floor((plot.posToVal(plot.cursor.left, "x") * 1e6 - starts[0]) / width);
    if (bar < 0 || bar >= starts.length) return;
    const number = (value) => (this.measure === "bytes" ? bytesText(value) : countText(value));
    const parts = of[bar] === undefined ? [] : this.series.map((one) => [one.name, one.values[of[bar]]]).filter(([, value]) => value);
    const total = parts.reduce((sum, [, value]) => sum + value, 0);
    parts.sort((a, b) => b[1] - a[1]);
    const shown = parts.slice(0, 4).map(([name, value]) => `${oneLine(name, 40)} ${number(value)}`);
    if (parts.length > 4) shown.push("…");
    this.readout.textContent = `${timeText(starts[bar], width)} UTC: ${number(total)}${this.series.length > 1 && shown.length ? ` (${shown.join(", ")})` : ""}`;
  }

  chosen(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const at = (position) => Math.round(plot.posToVal(position, "x") * 1e6);
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.zoom(at(left), at(left + width));
  }

  span() {
    const { starts, width } = this.grid;
    return [Number(this.state.since) || starts[0], Number(this.state.until) || starts.at(-1) + width];
  }

  /** Make the span a part of what it is, around a place in it (0 to 1). */
  scale(factor, around = 0.5) {
    if (!this.plot) return;
    const [since, until] = this.span();
    const length = Math.max(20000, (until - since) * factor);
    const place = since + (until - since) * around;
    this.zoom(Math.round(place - length * around), Math.round(place + length * (1 - around)));
  }

  pan(share) {
    if (!this.plot) return;
    const [since, until] = this.span(), by = Math.round((until - since) * share);
    this.zoom(since + by, until + by);
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;  // plain scrolling moves the page
    event.preventDefault();
    clearTimeout(this.later);
    const box = this.plot.over.getBoundingClientRect();
    const around = (event.clientX - box.left) / box.width;
    this.turned = (this.turned || 1) * (event.deltaY < 0 ? 0.7 : 1.4);
    this.later = setTimeout(() => { const by = this.turned; this.turned = 1; this.scale(by, around); }, 120);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      "+": () => this.scale(0.5), "=": () => this.scale(0.5), "-": () => this.scale(2),
      ArrowLeft: () => this.pan(-0.5), ArrowRight: () => this.pan(0.5), 0: () => this.zoom(null, null),
    }[event.key];
    if (!act || !this.plot) return;
    event.preventDefault();
    act();
  }
}

/** Labels of the time axis: the date where it changes, and as much of the time as the distance needs. */
function timeLabels(_, values, __, ___, step) {
  let day = "";
  return values.map((seconds) => {
    const text = new Date(Math.round(seconds * 1000)).toISOString();
    const date = text.slice(0, 10);
    if (step >= 86400) return date;
    const clock = step >= 60 ? text.slice(11, 16) : step >= 1 ? text.slice(11, 19) : text.slice(14, 23);
    const label = date === day ? clock : `${clock}\n${date}`;
    day = date;
    return label;
  });
}
