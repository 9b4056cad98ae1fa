"use strict";
// Numbers, times and texts of a log as people read them. All times are UTC.

const UNPRINTABLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text of a log with control, invisible and bidirectional characters as escapes. */
function printable(text) {
  return String(text).replace(UNPRINTABLE, (found) => {
    const code = found.charCodeAt(0);
    return code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0");
  });
}

/** The same on one line. */
function oneLine(text, most) {
  const line = printable(String(text).replace(/\s+/g, " ").trim());
  return line.length > most ? line.slice(0, most - 1) + "…" : line;
}

const WHOLE = new Intl.NumberFormat("en-US");

function countText(value) {
  return value === null || value === undefined ? "unknown" : WHOLE.format(value);
}

/** `12.3 M`, for axes. */
function shortCount(value) {
  if (value < 10000) return WHOLE.format(value);
  for (const unit of ["k", "M", "G"]) {
    value /= 1000;
    if (value < 999.95) return value.toFixed(1).replace(/\.0$/, "") + " " + unit;
  }
  return (value / 1000).toFixed(1) + " T";
}

function bytesText(value) {
  if (value < 1000) return value + " B";
  for (const unit of ["kB", "MB", "GB"]) {
    value /= 1000;
    if (value < 999.95) return value.toFixed(1) + " " + unit;
  }
  return (value / 1000).toFixed(1) + " TB";
}

function counted(count, noun) {
  return `${WHOLE.format(count)} ${count === 1 ? noun : noun + "s"}`;
}

/** The length of a span of microseconds: `1 h 02 min`. */
function spanText(us) {
  const seconds = us / 1e6;
  if (seconds < 1) return seconds > 0 ? `${Math.max(1, Math.round(us / 1000))} ms` : "less than 1 s";
  if (seconds < 60) return `${seconds < 10 ? +seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(seconds % 60)).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} days ${hours % 24} h`;
}

/** Microseconds since 1970 as `2026-11-21 07:09:00`, with as many digits as a width needs. */
function timeText(us, widthUs = 1e6) {
  const text = new Date(Math.floor(us / 1000)).toISOString().replace("T", " ");
  if (widthUs >= 86400e6) return text.slice(0, 10);
  if (widthUs >= 60e6) return text.slice(0, 16);
  if (widthUs >= 1e6) return text.slice(0, 19);
  return text.slice(0, 23);
}

/** A time of the server, `2026-11-21T07:09:00.123456Z`, without a fraction of zeros. */
function stampText(ts) {
  return ts === null ? "unknown" : ts.replace("T", " ").replace(/(\.0+)?Z$/, "");
}

/** Microseconds since 1970 of a time of the server. */
function stampUs(ts) {
  const [whole, fraction] = ts.replace("Z", "").split(".");
  return Date.parse(whole + "Z") * 1000 + Number((fraction || "0").padEnd(6, "0").slice(0, 6));
}

/** Microseconds since 1970 of what a person types; null for no time, undefined for a mistake. */
function typedUs(text) {
  const typed = text.trim();
  if (!typed) return null;
  const parts = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?(\.\d{1,6})?)?Z?$/.exec(typed);
  if (!parts) return undefined;
  const whole = Date.parse(`${parts[1]}T${parts[2] || "00:00"}${parts[3] || ":00"}Z`);
  if (Number.isNaN(whole)) return undefined;
  return whole * 1000 + Number((parts[4] || ".0").slice(1).padEnd(6, "0"));
}
