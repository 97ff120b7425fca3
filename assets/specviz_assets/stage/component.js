// The stage in a page of the dashboard: rounds come from the server, one after another; the script around runs once.

import { LiveStage } from "./live.js";
import { Feed } from "./feed.js";
import { Lesson } from "./lesson.js";
import { PanelRow } from "./panelrow.js";
import { Room } from "./room.js";
import { Stage } from "./stage.js";
import { Talker } from "./talker.js";
import { Welcome, hereButton } from "./welcome.js";
import { WhatIfStage } from "./whatif.js";

const mounted = new WeakMap();
const putBy = { done: false }; // the welcome, in this tab
// What plays on the page, and trees of one round in panels, which have no bar of their own: they stand where it stands.
const played = { stage: null, trees: new Set() };

async function answered(data, more, run = data.run) {
  const answer = await fetch(`${data.url}?run=${encodeURIComponent(run)}${more}`, { headers: { "X-Specviz-Token": data.token } });
  if (!answer.ok) throw new Error((await answer.json()).message ?? `the server says ${answer.status}`);
  if (answer.status === 204) throw new Error("another run has begun; this one stands under 'Run to look at'");
  return answer;
}

async function fetched(data, more, run) {
  return (await answered(data, more, run)).json();
}

async function ordered(data, command) {
  const headers = { "Content-Type": "application/json", "X-Specviz-Token": data.key };
  const answer = await fetch(data.command, { method: "POST", headers, body: JSON.stringify(command) });
  const reply = await answer.json();
  if (!reply.ok) throw new Error(reply.message);
}

// `last`: the page goes; what it says is sent all the same.
async function saidInRoom(data, word, last) {
  const headers = { "Content-Type": "application/json", "X-Specviz-Token": word.room === "lead" ? data.roomKey : data.token };
  const answer = await fetch(data.room, { method: "POST", headers, body: JSON.stringify(word), keepalive: last });
  const reply = await answer.json();
  if (!reply.ok) throw new Error(reply.message);
}

async function askedAgain(data, question) {
  const headers = { "Content-Type": "application/json", "X-Specviz-Token": data.token };
  const answer = await fetch(data.whatIf, { method: "POST", headers, body: JSON.stringify({ run: data.run, ...question }) });
  const reply = await answer.json();
  if (!answer.ok) throw new Error(reply.message ?? `the server says ${answer.status}`);
  return reply;
}

function groundOf(host) {
  const probe = document.createElement("i");
  probe.style.color = getComputedStyle(host).getPropertyValue("--st-background-color").trim() || "white";
  document.body.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return r * 0.3 + g * 0.6 + b * 0.1 < 128 ? "dark" : "light";
}

function sourceOf(data) {
  const view = data.view ? `&view=${encodeURIComponent(data.view)}` : "";
  return { head: () => fetched(data, ""), further: (from) => fetched(data, `&further=${from}`), round: async (index) => (await fetched(data, `&round=${index}&n=1${view}`))[0] };
}

// What can be taken away.
function files(data, run) {
  return {
    save: async () => (await answered(data, "&page=1", run())).blob(),
    share: async (query) => (await answered(data, `&${query}`, run())).blob(),
  };
}

// A recording, or a run that is over.
function recorded(mount, data, options) {
  const more = { ...files(data, () => data.run), whatIf: (question) => askedAgain(data, question) };
  return new WhatIfStage(mount, sourceOf(data), { ...options, ...more });
}

// The panels below the picture: one that is opened looks at what the picture has come to.
function panelsOf(held) {
  const row = new PanelRow((id, large) => {
    const { stage } = held;
    stage.stop();
    held.trigger("panel", { id, large: Boolean(large), place: stage.page && !stage.following ? stage.place : "" });
  });
  row.place(held.stage);
  return row;
}

// Several pages that look together. A recording has no stream of frames, so it has one of its own for this.
function togetherOf(data, held) {
  const room = new Room(held.stage, {
    options: { say: (word, last) => saidInRoom(data, word, last) },
    leads: Boolean(data.roomKey),
    src: data.src,
    mode: data.mode,
    panel: () => held.panel,
    tell: (name, value) => held.trigger(name, value),
  });
  held.hears = (presence) => room.hear(presence);
  if (!data.events) held.roomFeed = new Feed(data.roomEvents, () => {}, () => {}, held.hears);
  return room;
}

// The newest run of the core, and what is said to it.
function followed(mount, data, held, options) {
  const live = {
    events: data.room ? `${data.events}&room=1` : data.events,
    watches: !data.key,
    head: (run) => fetched(data, "", run),
    round: async (run, index) => (await fetched(data, `&round=${index}&n=1`, run))[0],
    points: (run, from) => fetched(data, `&points=${from}`, run),
    order: (command) => ordered(data, command),
    next: data.manner && data.key ? (run, method) => fetched(data, `&knobs=${encodeURIComponent(method)}`, run) : null,
    told: (presence) => held.hears?.(presence),
    // Models came or went, here or in another tab: the script is to run, once.
    compare: ({ core }) => {
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
  const ab = data.manner && data.key ? () => held.trigger("ab", true) : null;
  return new LiveStage(mount, null, { ...options, ab, live, talker: held.talker, ...files(data, () => held.stage.run) });
}

// A tree goes to the moment of the picture, while both are in the same round.
function along(held) {
  const { stage } = played, tree = held.stage;
  const placed = (one) => one?.page && one.head.points[one.index]?.place;
  if (!placed(tree) || placed(stage) !== placed(tree) || tree.k === stage.k) return;
  tree.speed = stage.speed;
  tree.chosen = stage.chosen;
  held.last = tree.place; // it is not told: the picture tells it
  tree.go(tree.index, stage.k, stage.moving);
}

// A node of such a tree was chosen: the picture waits there to be led to it.
function waitThere() {
  played.stage?.stop();
  played.stage?.untell();
  played.stage?.look();
}

// Somebody clicked on a link to another page. What is told behind it would name the page that is left, and lead back: until
// the server has answered, the page around still stands for the one that is left, and a busy server takes its time.
const AWAY_MS = 30000; // where the way was not gone after all (the server is away), all is told again
let away = -AWAY_MS;
const isAway = () => performance.now() - away <= AWAY_MS;
addEventListener("click", (event) => {
  const elsewhere = event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey; // another tab
  const link = event.composedPath().find((part) => part instanceof HTMLAnchorElement && part.href);
  if (elsewhere || !link || link.target || link.download) return;
  if (link.origin === location.origin && link.pathname !== location.pathname) away = performance.now();
}, true);

// What a picture tells the page around, one thing at a time: a browser sends its address along, and has that of after the
// one before only with the page that was made for it. Of places the newest is told.
const LOST_MS = 10000; // after that the answer is not waited for any more
let nTold = 0; // by all that is shown on the page
function telling(held) {
  const queue = [];
  let told = 0, toldAt = 0, later = null;
  const waits = () => told && told !== held.heard && performance.now() - toldAt < LOST_MS;
  held.unheard = () => queue.length > 0 || waits();
  held.tellNext = () => {
    clearTimeout(later);
    if (isAway() || held.stage.gone) queue.length = 0;
    if (!queue.length) return;
    if (waits()) {
      later = setTimeout(held.tellNext, LOST_MS);
      return;
    }
    const [name, value] = queue.shift();
    told = nTold += 1;
    toldAt = performance.now();
    held.send(name, { run: held.run, told, value });
  };
  held.trigger = (name, value) => {
    if (value.place && name !== "panel") held.last = value.place;
    if (name === "place" && queue.at(-1)?.[0] === name) queue.pop();
    queue.push([name, value]);
    held.tellNext();
  };
}

function mount(component, theme) {
  const { data, parentElement } = component;
  const held = { run: data.run, token: data.token, view: data.view, n: data.n, at: data.at, went: data.went, shown: data.shown, last: data.at, mode: data.mode };
  telling(held);
  const onPlace = (place) => {
    if (place === held.last || (data.bare && !place.includes("/"))) return;  // a bare tree tells of clicks alone
    held.trigger("place", { place });
  };
  const onDraw = () => {
    held.room?.moved();
    if (!data.bare) played.trees.forEach(along);
    held.lesson?.drew();
    if (held.stage?.page) held.welcome?.drew(held.stage.page.moments[held.stage.k].phase);
  };
  const options = { at: data.at, play: data.play, theme, onPlace, onDraw };
  if (data.room) {
    options.room = () => held.room;
    options.onTouched = (act, node) => {
      if (!held.lesson?.asksPlace) held.room?.touched();
      held.lesson?.did(act, node);
    };
  }
  const place = parentElement.querySelector(".mount");
  held.stage = data.events ? followed(place, data, held, options)
    : data.bare ? new Stage(place, sourceOf(data), { ...options, bare: true, onTouched: waitThere }) : recorded(place, data, options);
  if (data.bare) {
    played.trees.add(held);
    held.stage.ready.then(() => along(held));
  } else played.stage = held.stage;
  if (data.panels) held.panels = panelsOf(held);
  held.panel = data.panel;
  if (data.room) held.room = togetherOf(data, held);
  const here = () => held.trigger("here", true);
  if (data.here) held.stage.box.querySelector(".start").append(hereButton(data.here, here));
  if (data.welcome?.length && !putBy.done) {
    const learn = data.lessons && { ...data.lessons, go: () => held.trigger("lesson", data.lessons.lesson) };
    held.welcome = new Welcome(held.stage, data.welcome, data.here, here, () => {
      putBy.done = true;
      held.trigger("welcomed", true);
    }, learn);
  }
  return held;
}

// The lesson that the page around asks for, beside the picture; another one takes its place.
function teach(held, lesson) {
  const id = lesson?.script.id;
  if (held.lesson?.script.id === id) return;
  held.lesson?.leave();
  held.lesson = null;
  if (held.room) held.room.lesson = null;
  if (!lesson) return;
  held.welcome?.end();
  const go = (to) => held.trigger("lesson", to);
  held.lesson = new Lesson(held.stage, lesson.script, {
    teach: lesson.teach,
    title: lesson.title,
    next: lesson.next ? () => go(lesson.next) : null,
    leave: () => go(""),
    follows: () => Boolean(held.room?.following),
    onStep: () => held.room?.moved(),
  });
  if (!held.room) return;
  held.room.lesson = held.lesson;
  held.room.paint();
}

function leave(held) {
  held.welcome?.end();
  held.lesson?.leave();
  held.room?.end();
  held.roomFeed?.end();
  played.trees.delete(held);
  if (played.stage === held.stage) played.stage = null;
  held.stage.end();
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  const theme = groundOf(parentElement.host ?? parentElement);
  let held = mounted.get(parentElement);
  // Another token: the server was started anew, and knows nothing of what this picture holds on to.
  if (held && (held.run !== data.run || held.view !== data.view || held.token !== data.token)) {
    leave(held);
    held = null;
  }
  if (!held) {
    if (!data.bare) away = -AWAY_MS; // another picture is there, and not only a tree in a panel
    held = mount(component, theme);
    mounted.set(parentElement, held);
  }
  held.send = setTriggerValue;
  held.heard = data.heard;
  held.tellNext();
  held.core = data.core;
  if (data.manner) held.stage.plan(data.method);
  held.stage.setTheme(theme);
  held.room?.ground();
  if (data.manner) held.talker?.setManner(data.manner);
  held.panels?.set(data.panels, data.panel, data.large);
  if (held.panel !== data.panel) {
    held.panel = data.panel;
    if (data.panel && !data.large) held.panels?.show();
    held.room?.moved();
  } else if (held.shown !== data.shown) held.stage.showTree();
  held.shown = data.shown;
  teach(held, data.lesson);
  if (data.mode !== held.mode) held.room?.set((held.mode = data.mode));
  if (data.panels) held.stage.around.classList.toggle("open", Boolean(data.panel));
  held.stage.around.classList.toggle("large", Boolean(data.large));
  if (held.n !== data.n) {
    held.n = data.n;
    held.stage.refresh();
  }
  // Either the answer to a place that was told, or one that came otherwise: the way back, a link. The address may lead to
  // the place that was answered last, where the answer to a later one never came: `went` counts how often it led.
  // What the server says that has not heard yet of the newest move here is too late: that move is going to be told.
  const led = data.went !== held.went;
  if (data.at && (led || (data.at !== held.at && data.at !== held.last && !held.unheard()))) {
    held.last = data.at;
    if (led || !held.stage.telling) {
      held.stage.visit(data.at).then(() => {
        if (held.stage.page && held.stage.place === held.last) held.stage.untell(); // the server knows
        if (data.bare) along(held);
      });
    }
  }
  held.at = data.at;
  held.went = data.went;
  // It is also called where new data came before this script was there, behind the call for those: the picture stays.
  return () => {
    if (parentElement.isConnected) return;
    leave(held);
    mounted.delete(parentElement);
  };
}
