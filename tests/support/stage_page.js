// Run behind the painter: the stage with what a server would answer, which lies in the page.

window.EventSource = class { constructor() { window.source = this; } addEventListener() {} close() {} };
const told = JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(document.getElementById("told").textContent), (c) => c.charCodeAt(0))));
const round = async (index) => told.rounds[index] ?? told.rounds[0];
const none = async () => ({ ok: true });
const at = document.getElementById("at");
const options = { at: told.live ? "" : told.at, theme: "light", save: none, share: none };
const room = (stage) => new Room(stage, { options: {}, say: none, leads: true, src: "x", mode: "", panel: () => "", tell() {} });
let stage;
if (told.live) {
  const live = { events: "none", head: async () => structuredClone(told.head), round: (_, index) => round(index), points: async () => [], order: none };
  const talker = new Talker({ said: async () => ({ above: [], below: "", shown: true }), say() {}, anew() {}, look() {} });
  stage = new LiveStage(at, null, { ...options, live, talker, ab() {} });
  talker.setManner({ talks: true, able: true, placeholder: "Message to smollm2", examples: {} });
} else {
  const source = { head: async () => told.head, round };
  stage = new WhatIfStage(at, source, { ...options, whatIf: async (asked) => asked.verifier || Object.keys(asked.knobs).length || Object.keys(asked.uniforms).length ? told.answer : told.own });
  stage.box.querySelector(".start").append(hereButton({ able: true, text: "Load SmolLM2 135M Instruct, run it here", help: "here" }, none));
}
options.room = () => held;
const held = room(stage);
const row = new PanelRow(() => {});
row.place(stage);
row.set(told.panels, "");
window.stage = stage;
window.told = told;
if (told.live) window.source.onmessage({ data: JSON.stringify(told.frame) });
