// What a page shows as one SVG file: boxes, lines of text and the tree, each where the browser laid it out. No script, no
// style sheet and nothing from elsewhere is in it.

import { svg } from "./dom.js";

// Of a shape of the tree, what its style sheet says; lengths and places that CSS may set are attributes as well.
const SHAPE = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "width"];
const LETTERS = ["fill", "opacity", "font-family", "font-size", "font-weight", "font-style", "text-anchor"];
const letters = document.createElement("canvas").getContext("2d");
const number = (value) => String(Math.round(value * 100) / 100);

// `color(srgb ..)`, which is what a mixed colour is computed to, is unknown to most that read SVG.
function colour(value) {
  const [, r, g, b, a] = /^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.e-]+))?\)$/.exec(value) ?? [];
  if (r === undefined) return value;
  return `rgba(${[r, g, b].map((part) => Math.round(part * 255))}, ${a ?? 1})`;
}

const seen = (style) => style.display !== "none" && style.visibility === "visible" && style.opacity !== "0";
const plain = (value) => value === "none" || /^rgba\(.*, 0\)$|^transparent$/.test(value);

export class Vector {
  constructor(box) {
    this.edge = box.getBoundingClientRect();
    this.clips = 0;
    const { offsetWidth: width, offsetHeight: height } = box;
    this.svg = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
    this.element(box, this.svg);
  }

  file(title, words) {
    this.svg.prepend(svg("title", { text: title }), svg("desc", { text: words }));
    return new XMLSerializer().serializeToString(this.svg);
  }

  rect(x, y, w, h, more) {
    return svg("rect", { x: number(x - this.edge.left), y: number(y - this.edge.top), width: number(w), height: number(h), ...more });
  }

  element(element, into) {
    const style = getComputedStyle(element);
    if (!seen(style)) return;
    const at = element.getBoundingClientRect(), group = style.opacity === "1" ? into : into.appendChild(svg("g", { opacity: style.opacity }));
    this.boxes(style, element.getClientRects(), group);
    const inside = this.clipped(element, style, at, group);
    this.before(element, at, inside);
    for (const child of element.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) this.text(child, style, inside);
      else if (child instanceof SVGSVGElement) this.drawn(child, inside);
      else if (child instanceof HTMLCanvasElement) this.canvas(child, inside);
      else if (child instanceof HTMLElement) this.element(child, inside);
    }
  }

  // Ground and border of an element, of each of its lines.
  boxes(style, rects, into) {
    const ground = colour(style.backgroundColor), edge = colour(style.borderLeftColor), r = parseFloat(style.borderTopLeftRadius) || 0;
    const wide = (side) => parseFloat(style[`border${side}Width`]) || 0;
    for (const { left, top, width, height } of rects) {
      const half = wide("Top") / 2, all = ["Right", "Bottom", "Left"].every((side) => wide(side) === wide("Top"));
      const rx = number(Math.min(style.borderTopLeftRadius.endsWith("%") ? width : r, width / 2, height / 2));
      const stroke = all && half ? { stroke: edge, "stroke-width": 2 * half } : {};
      if (!plain(ground) || stroke.stroke) into.append(this.rect(left + half, top + half, width - 2 * half, height - 2 * half, { rx, fill: plain(ground) ? "none" : ground, ...stroke }));
      if (all) continue;
      if (wide("Left")) into.append(this.rect(left, top, wide("Left"), height, { fill: edge }));
      if (wide("Top")) into.append(this.rect(left, top, width, wide("Top"), { fill: colour(style.borderTopColor) }));
      if (wide("Bottom")) into.append(this.rect(left, top + height - wide("Bottom"), width, wide("Bottom"), { fill: colour(style.borderBottomColor) }));
    }
  }

  // What goes beyond an element that hides that.
  clipped(element, style, at, into) {
    const over = element.scrollHeight > element.clientHeight + 1 || element.scrollWidth > element.clientWidth + 1;
    if (style.overflowX === "visible" || style.display === "inline" || !over) return into;
    const id = `clip${(this.clips += 1)}`;
    into.append(svg("clipPath", { id }, this.rect(at.left, at.top, at.width, at.height)));
    return into.appendChild(svg("g", { "clip-path": `url(#${id})` }));
  }

  // A small box or a letter in front of what an element says.
  before(element, at, into) {
    const style = getComputedStyle(element, "::before");
    if (["none", "normal"].includes(style.content) || !seen(style)) return;
    const w = parseFloat(style.width), h = parseFloat(style.height), moved = new DOMMatrix(style.transform);
    const placed = style.position === "absolute";
    const left = at.left + moved.e + (placed ? parseFloat(style.left) : 0);
    const top = placed ? at.top + moved.f + parseFloat(style.top) : this.baseline("x", at, style) - h - (parseFloat(style.verticalAlign) || 0);
    this.boxes(style, [{ left, top, width: w, height: h }], into);
    const text = JSON.parse(style.content);
    if (text) this.line(text, { left, top, width: w, height: h }, style, into);
  }

  // A text node, line by line as it was broken.
  text(node, style, into) {
    const range = document.createRange(), lines = [];
    for (let k = 0; k < node.data.length;) {
      const n = node.data.codePointAt(k) > 0xffff ? 2 : 1;
      range.setStart(node, k);
      range.setEnd(node, k + n);
      const rect = [...range.getClientRects()].at(-1), letter = node.data.slice(k, (k += n)), last = lines.at(-1);
      if (!rect?.width || letter === "\n") continue;
      if (last && Math.abs(last.top - rect.top) < rect.height / 2) {
        last.text += letter;
        last.width = rect.right - last.left;
      } else lines.push({ text: letter, left: rect.left, top: rect.top, width: rect.width, height: rect.height });
    }
    for (const line of lines) this.line(line.text, line, style, into);
  }

  baseline(text, { top, height }, style) {
    letters.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = letters.measureText(text);
    return top + (height - up - down) / 2 + up;
  }

  // One line, on its baseline and as long as it is here, whichever font draws it elsewhere.
  line(text, { left, top, width, height }, style, into) {
    const base = this.baseline(text, { top, height }, style), fill = colour(style.color), size = parseFloat(style.fontSize);
    const shown = style.textTransform === "uppercase" ? text.toUpperCase() : text;
    const stroke = (y, high) => into.append(this.rect(left, y, width, high, { fill: colour(style.textDecorationColor) }));
    if (style.textDecorationLine.includes("underline")) stroke(base + (parseFloat(style.textUnderlineOffset) || 2), parseFloat(style.textDecorationThickness) || 1);
    into.append(svg("text", { x: number(left - this.edge.left), y: number(base - this.edge.top), fill, "font-family": style.fontFamily, "font-size": style.fontSize,
      "font-weight": style.fontWeight, "font-style": style.fontStyle, textLength: number(width), lengthAdjust: "spacingAndGlyphs", "xml:space": "preserve", style: "white-space: pre", text: shown }));
    if (style.textDecorationLine.includes("line-through")) stroke(base - size * 0.3, 1.5);
  }

  // A picture that is SVG already: what its style sheet says of each of its shapes goes into the file.
  drawn(element, into) {
    const at = element.getBoundingClientRect(), id = `clip${(this.clips += 1)}`;
    if (!at.width || !seen(getComputedStyle(element))) return;
    into.append(svg("clipPath", { id }, this.rect(at.left, at.top, at.width, at.height)));
    const inside = into.appendChild(svg("g", { "clip-path": `url(#${id})` }));
    const root = inside.appendChild(svg("g", { transform: `translate(${number(at.left - this.edge.left)} ${number(at.top - this.edge.top)})` }));
    for (const child of element.children) this.shape(child, root);
  }

  shape(element, into) {
    const style = getComputedStyle(element), written = element.tagName === "text";
    if (!seen(style)) return;
    const shape = svg(element.tagName);
    if (style.transform !== "none") shape.setAttribute("transform", style.transform);
    if (element.tagName === "g") {
      if (style.opacity !== "1") shape.setAttribute("opacity", style.opacity);
      for (const child of element.children) this.shape(child, shape);
    } else {
      for (const { name, value } of element.attributes) if (!["class", "style", "data-edge"].includes(name)) shape.setAttribute(name, value);
      for (const name of written ? LETTERS : SHAPE) if (style[name] && style[name] !== "auto") shape.setAttribute(name, colour(style[name]));
      if (written) Object.assign(shape, { textContent: element.textContent }).setAttribute("style", "white-space: pre");
      if (written && style.textDecorationLine !== "none") shape.setAttribute("text-decoration", style.textDecorationLine);
    }
    into.append(shape);
  }

  // What is painted on a canvas, as sharp as it is there.
  canvas(element, into) {
    const { left, top, width, height } = element.getBoundingClientRect();
    if (!width) return;
    into.append(svg("image", { x: number(left - this.edge.left), y: number(top - this.edge.top), width: number(width), height: number(height), href: element.toDataURL() }));
  }
}
