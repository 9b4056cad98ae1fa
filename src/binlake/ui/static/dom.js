"use strict";
// Elements are made from texts, never from HTML: whatever a log contains is shown as it is.

/** An element. Attributes that are functions listen to events; null leaves an attribute out. */
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function fill(element, ...children) {
  element.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
}

/** A link to a state of the page. */
function link(changes, text, attributes) {
  return el("a", { href: hashOf(changes), ...attributes }, text);
}

function button(text, onclick, attributes) {
  return el("button", { type: "button", onclick, ...attributes }, text);
}

/** A group of buttons of which one is chosen. */
function choice(label, options, chosen, choose) {
  return el("div", { class: "choice", role: "group", "aria-label": label },
    Object.entries(options).map(([value, text]) =>
      button(text, () => choose(value), { "aria-pressed": String(value === chosen) })));
}

/** A table; each column is [head, value of a row, class]. Rows may have a place to go to. */
function table(caption, columns, rows, target) {
  const head = el("tr", null, columns.map(([name, , kind]) => el("th", { scope: "col", class: kind }, name)));
  const body = rows.map((row) => {
    const place = target ? target(row) : null;
    return el("tr", place ? { class: "goes", onclick: (event) => follow(event, place) } : null,
      columns.map(([, value, kind]) => el("td", { class: kind }, value(row))));
  });
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", null, el("caption", { class: "hidden" }, caption), el("thead", null, head), el("tbody", null, body)));
}

/** Go where a row leads, unless the click was on a link, or selected text. */
function follow(event, place) {
  if (event.target.closest("a,button") || String(window.getSelection())) return;
  location.hash = place;
}

function section(title, ...content) {
  return el("section", null, el("h2", null, title), ...content);
}

function note(text) {
  return el("p", { class: "soft" }, text);
}

function remarks(texts) {
  return texts && texts.length ? el("ul", { class: "remarks", "aria-label": "Remarks" }, texts.map((text) => el("li", null, printable(text)))) : null;
}

/** A bar whose parts are shares of the largest value. */
function meter(parts, most) {
  return el("span", { class: "meter", "aria-hidden": "true" }, parts.map(([name, value]) => {
    const part = el("span", { class: name });
    part.style.width = `${most ? (value / most) * 100 : 0}%`;
    return part;
  }));
}
