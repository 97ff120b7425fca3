// The row of panels below the picture: which have something to say of this run, and the one that is open.

import { el, put } from "./dom.js";

export class PanelRow {
  // `open(id, large)`: "" closes the one that is open; `large`: it has the window for itself, but for what plays.
  constructor(open) {
    this.open = open;
    this.list = el("div", { class: "tabs", role: "tablist", "aria-label": "panels of this run", onkeydown: (event) => this.key(event) });
    this.size = el("button", { type: "button", class: "size", hidden: true, onclick: () => this.open(this.chosen, !this.large) });
    this.box = el("nav", { class: "panelrow", "aria-label": "panels" }, this.list, this.size);
  }

  // Below the picture, which takes what the window has left below what stands above it.
  place(stage) {
    const { around } = stage;
    around.append(this.box);
    around.classList.add("rows");
    let scroller = around;
    while (scroller && !(scroller instanceof Element && /auto|scroll/.test(getComputedStyle(scroller).overflowY))) scroller = scroller.parentNode ?? scroller.host;
    const view = this.view = scroller ?? document.documentElement;
    this.top = () => (scroller ? view.getBoundingClientRect().top : 0);
    const watch = new ResizeObserver(() => { // a line more or less above it
      if (!around.isConnected) {
        watch.disconnect();
        return;
      }
      const above = around.getBoundingClientRect().top - this.top() + view.scrollTop;
      around.style.setProperty("--above", `${Math.round(above)}px`);
    });
    for (const row of view.children) watch.observe(row);
  }

  // `panels`: of each its id, its title, and why it has nothing to say ("": it has). Such a one is grey, and opens on the
  // reason and a recording that has it.
  set(panels, chosen, large) {
    Object.assign(this, { chosen, large });
    this.size.hidden = !chosen;
    put(this.size, large ? "⤡ with the picture" : "⤢ large");
    this.size.title = large ? "show the picture above the panel again" : "give the panel the whole window, but for what plays";
    const held = this.box.contains(this.box.getRootNode().activeElement) ? this.box.getRootNode().activeElement.dataset.panel : null;
    this.list.replaceChildren(...panels.map(([id, title, reason]) => el("button", { type: "button", role: "tab", text: title, "data-panel": id,
      "aria-selected": String(id === chosen), class: reason ? "closed" : "", title: reason || (id === chosen ? "close" : ""),
      tabindex: id === (chosen || panels[0][0]) ? 0 : -1, onclick: () => this.open(id === this.chosen ? "" : id, this.large) })));
    if (held) this.list.querySelector(`[data-panel="${CSS.escape(held)}"]`)?.focus();
  }

  // The row in the middle of the window: below it is what was opened, above it what it is about. What was opened may come
  // later than the row: the page is followed as it grows, until it is long enough or somebody moves it by hand.
  show() {
    this.growing?.disconnect();
    const { box, view } = this, growing = this.growing = new ResizeObserver(() => {
      const row = box.getBoundingClientRect(), up = row.top + row.height / 2 - this.top() - view.clientHeight / 2;
      if (!this.chosen || up <= view.scrollHeight - view.clientHeight - view.scrollTop) growing.disconnect();
      if (this.chosen) box.scrollIntoView({ block: "center", behavior: "smooth" });
    });
    for (const row of view.children) growing.observe(row);
    for (const act of ["wheel", "pointerdown", "keydown"]) addEventListener(act, () => growing.disconnect(), { once: true, capture: true });
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    const all = [...this.list.children];
    all.at((all.indexOf(event.target) + step) % all.length).focus();
    event.preventDefault();
    event.stopPropagation();
  }
}
