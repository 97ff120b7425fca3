// The stage in a page of the dashboard: rounds come from the server, one after another; the script around runs once.

import { LiveStage } from "./live.js";
import { Stage } from "./stage.js";
import { Talker } from "./talker.js";
import { Welcome, hereButton } from "./welcome.js";

const mounted = new WeakMap();
const putBy = { done: false }; // the welcome, in this tab

async function answered(data, more, run = data.run) {
  const answer = await fetch(`${data.url}?run=${encodeURIComponent(run)}${more}`, { headers: { "X-Specviz-Token": data.token } });
  if (!answer.ok) throw new Error((await answer.json()).message ?? `the server says ${answer.status}`);
  return answer;
}

async function fetched(data, more, run) {
  return (await answered(data, more, run)).json();
}

async function ordered(data, command) {
  const headers = { "Content-Type": "application/json", "X-Specviz-Token": data.key };
  const answer = await fetch(data.command, { method: "POST", headers, body: JSON.stringify(command) });
  const said = await answer.json();
  if (!said.ok) throw new Error(said.message);
}

function groundOf(host) {
  const probe = document.createElement("i");
  probe.style.color = getComputedStyle(host).getPropertyValue("--st-background-color").trim() || "white";
  document.body.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return r * 0.3 + g * 0.6 + b * 0.1 < 128 ? "dark" : "light";
}

// A recording, or a run that is over.
function recorded(mount, data, options) {
  const source = { head: () => fetched(data, ""), round: async (index) => (await fetched(data, `&round=${index}&n=1`))[0] };
  return new Stage(mount, source, { ...options, save: async () => (await answered(data, "&page=1")).blob() });
}

// The newest run of the core, and what is said to it.
function followed(mount, data, held, options) {
  const live = {
    events: data.events,
    watches: !data.key,
    head: (run) => fetched(data, "", run),
    round: async (run, index) => (await fetched(data, `&round=${index}&n=1`, run))[0],
    points: (run, from) => fetched(data, `&points=${from}`, run),
    order: (command) => ordered(data, command),
    // Models came or went, here or in another tab: the script is to run, once.
    compare: (core) => {
      if (core === held.core || core === held.told) return;
      held.told = core;
      held.trigger("core", core);
    },
  };
  held.talker = new Talker({
    said: () => fetched(data, "&said=1"),
    say: (text) => held.trigger("say", text),
    anew: () => held.trigger("anew", true),
    look: (run) => held.trigger("look", run),
  });
  const save = async () => (await answered(data, "&page=1", held.stage.run)).blob();
  return new LiveStage(mount, null, { ...options, live, talker: held.talker, save });
}

function mount(component, theme) {
  const { data, parentElement } = component;
  const held = { run: data.run, at: data.at, last: data.at, pending: [] };
  const onPlace = (place) => {
    if (place === held.last) return;
    held.last = place;
    held.pending.push(place);
    held.trigger("place", place);
  };
  const options = { at: data.at, play: data.play, theme, onPlace }, place = parentElement.querySelector(".mount");
  held.stage = data.events ? followed(place, data, held, options) : recorded(place, data, options);
  const here = () => held.trigger("here", true);
  if (data.here) held.stage.box.querySelector(".tools").prepend(hereButton(data.here, here));
  if (data.welcome?.length && !putBy.done) {
    held.welcome = new Welcome(held.stage, data.welcome, data.here, here, () => {
      putBy.done = true;
      held.trigger("welcomed", true);
    });
  }
  return held;
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const theme = groundOf(parentElement.host ?? parentElement);
  let held = mounted.get(parentElement);
  if (held && held.run !== data.run) {
    held.welcome?.end();
    held.stage.end();
    held = null;
  }
  if (!held) {
    held = mount(component, theme);
    mounted.set(parentElement, held);
  }
  held.trigger = setTriggerValue;
  held.core = data.core;
  held.stage.setTheme(theme);
  if (data.manner) held.talker?.setManner(data.manner);
  // Either the answer to a place that was told, or one that came otherwise: the way back, a link.
  const told = held.pending.indexOf(data.at);
  if (told >= 0) held.pending.splice(0, told + 1);
  else if (data.at && data.at !== held.at) {
    held.last = data.at;
    held.stage.visit(data.at);
  }
  held.at = data.at;
  return () => {
    held.welcome?.end();
    held.stage.end();
    mounted.delete(parentElement);
  };
}
