// The stage in a page of the dashboard: rounds come from the server, one after another; the script around runs once.

import { Stage } from "./stage.js";

const mounted = new WeakMap();

async function fetched(data, more) {
  const answer = await fetch(`${data.url}?run=${encodeURIComponent(data.run)}${more}`, { headers: { "X-Specviz-Token": data.token } });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.message ?? `the server says ${answer.status}`);
  return body;
}

function groundOf(host) {
  const probe = document.createElement("i");
  probe.style.color = getComputedStyle(host).getPropertyValue("--st-background-color").trim() || "white";
  document.body.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return r * 0.3 + g * 0.6 + b * 0.1 < 128 ? "dark" : "light";
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const theme = groundOf(parentElement.host ?? parentElement);
  let held = mounted.get(parentElement);
  if (held && held.run !== data.run) {
    held.stage.end();
    held = null;
  }
  if (!held) {
    const source = { head: () => fetched(data, ""), round: async (index) => (await fetched(data, `&round=${index}&n=1`))[0] };
    held = { run: data.run, at: data.at, told: new Set([data.at]) };
    held.stage = new Stage(parentElement.querySelector(".mount"), source, {
      at: data.at, play: data.play, theme,
      onPlace: (place) => {
        if (held.told.has(place) && place === held.last) return;
        held.last = place;
        held.told.add(place);
        held.trigger("place", place);
      },
    });
    mounted.set(parentElement, held);
  }
  held.trigger = setTriggerValue;
  held.stage.setTheme(theme);
  // A place that was written into the address elsewhere, by the way back or another page.
  if (data.at && data.at !== held.at && !held.told.has(data.at)) held.stage.goto(data.at);
  held.at = data.at;
  return () => {
    held.stage.end();
    mounted.delete(parentElement);
  };
}
