// A saved page: its run lies in it, packed; nothing is asked of anybody.

import { el } from "./dom.js";
import { Stage } from "./stage.js";

// What lies in the page under a name.
export async function unpacked(id) {
  const packed = document.getElementById(id).textContent.trim();
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

export function sourceHere() {
  const whole = unpacked("run");
  return { head: async () => (await whole).head, round: async (index) => (await whole).rounds[index] };
}

// A panel below the picture, folded: words, and tables.
function panel({ title, parts }) {
  const line = (cells, tag) => el("tr", {}, ...cells.map((text) => el(tag, { text, style: "padding: 2px 14px; text-align: left" })));
  const part = ({ title: head, words, heads, rows }) => el("section", {},
    head ? el("h3", { text: head }) : null,
    words ? el("p", { text: words }) : null,
    rows ? el("table", {}, heads ? line(heads, "th") : null, ...rows.map((row) => line(row, "td"))) : null);
  return el("details", { style: "font-family: system-ui, sans-serif; margin: 12px 24px" }, el("summary", { text: title }), ...parts.map(part));
}

// `more`: options of the stage that are others than a run's that is just looked at.
export function openFile(more = {}) {
  const source = sourceHere();
  const asked = new URLSearchParams(location.hash.slice(1));
  const onPlace = (place) => {
    try {
      history.replaceState(null, "", `#at=${place}`);
    } catch {
      // A page inside another one has no address of its own.
    }
  };
  const stage = new Stage(document.body, source, { at: asked.get("at") ?? "", play: true, alone: true, onPlace, ...more });
  source.head().then((head) => document.body.append(...(head.panels ?? []).map(panel)));
  addEventListener("hashchange", () => stage.visit(new URLSearchParams(location.hash.slice(1)).get("at") ?? ""));
  return stage;
}
