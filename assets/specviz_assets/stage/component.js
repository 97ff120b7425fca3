// The stage in a page of the dashboard: rounds come from the server, one after another; the script around runs once.

import { Stage } from "./stage.js";

const mounted = new WeakMap();

async function answered(data, more) {
  const answer = await fetch(`${data.url}?run=${encodeURIComponent(data.run)}${more}`, { headers: { "X-Specviz-Token": data.token } });
  if (!answer.ok) throw new Error((await answer.json()).message ?? `the server says ${answer.status}`);
  return answer;
}

async function fetched(data, more) {
  return (await answered(data, more)).json();
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
    held = { run: data.run, at: data.at, last: data.at, pending: [] };
    held.stage = new Stage(parentElement.querySelector(".mount"), source, {
      at: data.at, play: data.play, theme,
      save: async () => (await answered(data, "&page=1")).blob(),
      onPlace: (place) => {
        if (place === held.last) return;
        held.last = place;
        held.pending.push(place);
        held.trigger("place", place);
      },
    });
    mounted.set(parentElement, held);
  }
  held.trigger = setTriggerValue;
  held.stage.setTheme(theme);
  // Either the answer to a place that was told, or one that came otherwise: the way back, a link.
  const told = held.pending.indexOf(data.at);
  if (told >= 0) held.pending.splice(0, told + 1);
  else if (data.at && data.at !== held.at) {
    held.last = data.at;
    held.stage.visit(data.at);
  }
  held.at = data.at;
  return () => {
    held.stage.end();
    mounted.delete(parentElement);
  };
}
