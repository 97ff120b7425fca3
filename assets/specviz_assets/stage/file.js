// A saved page: its run lies in it, packed; nothing is asked of anybody.

import { Stage } from "./stage.js";

async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

export function openFile() {
  const whole = unpacked(document.getElementById("run").textContent.trim());
  const source = { head: async () => (await whole).head, round: async (index) => (await whole).rounds[index] };
  const asked = new URLSearchParams(location.hash.slice(1));
  const onPlace = (place) => {
    try {
      history.replaceState(null, "", `#at=${place}`);
    } catch {
      // A page inside another one has no address of its own.
    }
  };
  const stage = new Stage(document.body, source, { at: asked.get("at") ?? "", play: true, alone: true, onPlace });
  addEventListener("hashchange", () => stage.visit(new URLSearchParams(location.hash.slice(1)).get("at") ?? ""));
  return stage;
}
