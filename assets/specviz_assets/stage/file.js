// A saved page: its run lies in it, packed; nothing is asked of anybody.

import { PosedStage } from "./pose.js";
import { Stage } from "./stage.js";

async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function sourceHere() {
  const whole = unpacked(document.getElementById("run").textContent.trim());
  return { head: async () => (await whole).head, round: async (index) => (await whole).rounds[index] };
}

// The same as a picture, for who drives the page from outside.
export function poseFile(theme, wide) {
  globalThis.posed = new PosedStage(document.body, sourceHere(), { theme, wide });
}

export function openFile() {
  const source = sourceHere();
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
