// Small helpers. Every text is set as text content; nothing from a document is ever parsed as markup.

const probe = document.createElement("template");
probe.innerHTML = "<svg></svg>";
const SVG = probe.content.firstChild.namespaceURI;

export const MONO = 'ui-monospace, "SF Mono", "Cascadia Code", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
export const ROOT = -1, CLOSING = -2;
export const PHASE = { ROOT: 1, DRAFT: 2, VERIFY: 3, ACCEPT: 4, CLOSE: 5, COMMIT: 6 };

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element[name] = value;
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();

export function textWidth(text, size) {
  const key = `${size} ${text}`;
  if (!widths.has(key)) {
    ruler.font = `${size}px ${MONO}`;
    if (widths.size > 5000) widths.clear();
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}

export function clipped(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

const ICONS = {
  play: "M6 4l14 8-14 8z",
  pause: "M6 4h4v16H6zM14 4h4v16h-4z",
  step: "M5 5l9 7-9 7zM16 5h3v14h-3z",
  back: "M19 5l-9 7 9 7zM5 5h3v14H5z",
  round: "M3 5l8 7-8 7zM11 5l8 7-8 7zM20 5h2v14h-2z",
  roundback: "M21 5l-8 7 8 7zM13 5l-8 7 8 7zM2 5h2v14H2z",
  reject: "M4 6l2-2 6 6 6-6 2 2-6 6 6 6-2 2-6-6-6 6-2-2 6-6z",
  plus: "M11 5h2v6h6v2h-6v6h-2v-6H5v-2h6z",
  minus: "M5 11h14v2H5z",
  fit: "M4 4h6v2H6v4H4zM14 4h6v6h-2V6h-4zM4 14h2v4h4v2H4zM18 14h2v6h-6v-2h4z",
  save: "M11 3h2v8l3-3 1.4 1.4L12 14.8 6.6 9.4 8 8l3 3zM4 18h16v2.5H4z",
  present: "M3 4h18v12H3zM5 6v8h14V6zM11 16h2v3h4v2H7v-2h4z",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

export function fill(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

export function button(name, label, onclick, words = "") {
  const control = el("button", { type: "button", title: label, "aria-label": label, onclick, "data-do": name });
  if (ICONS[name]) control.append(icon(name));
  if (words) control.append(el("span", { text: words }));
  return control;
}
