// A moment as a picture: the stage once more, in one column, without what is there to be pressed; as SVG or PNG.

import { el } from "./dom.js";
import { Stage } from "./stage.js";
import { Vector } from "./vector.js";

const WIDE = 800, TALL = 620, SHARP = 2; // px of a picture; of its tree at most; pixels of a PNG to one of them

export class PosedStage extends Stage {
  constructor(root, source, options) {
    super(root, source, { ...options, alone: true, bare: true });
    this.box.classList.remove("bare");
    this.box.classList.add("posed");
    this.tree.entire = true;
  }

  // At moment `k` of the first of some rounds, which are all to fit into a picture of one size; null: where their film begins.
  async pose(indexes, k = -1, chosen = null) {
    await this.ready;
    this.around.style.width = `${this.options.wide ?? WIDE}px`;
    const { tree, talk } = this;
    let tall = 0;
    tree.box.style.height = `${TALL}px`;
    for (const index of indexes) {
      await this.go(index, -1);
      tall = Math.max(tall, tree.tall());
    }
    talk.box.style.height = `${talk.box.offsetHeight}px`;
    tree.box.style.height = `${tall}px`;
    tree.page = null;
    this.box.classList.toggle("still", k !== null);
    await this.go(indexes[0], k ?? 0, false, chosen);
    this.box.classList.toggle("pinned", this.chosen !== null);
    this.time.draw(); // now, not when the browser tells of its new size
    this.time.show(this.index, this.k, this.page.moments.length, false);
    for (const animation of this.box.getAnimations({ subtree: true })) animation.finish();
  }

  tell() {}

  svg() {
    const { phase_text: phase, sentence } = this.page.moments[this.k], { place } = this.head.points[this.index];
    return new Vector(this.box).file(`${this.head.title}, ${this.place}`, `${place}: ${phase}. ${sentence}`);
  }
}

// A file of what `stage` shows, made here: nobody else is asked.
export async function pictureOf(stage, kind) {
  const host = stage.around.parentNode.appendChild(el("div", { style: "position: fixed; left: -9999px; top: 0" }));
  const source = { head: async () => stage.head, round: async () => ({ ...stage.page }) };
  const posed = new PosedStage(host, source, { theme: stage.dark ? "dark" : "light" });
  try {
    await posed.pose([stage.index], stage.k, stage.chosen);
    const file = new Blob([posed.svg()], { type: "image/svg+xml" });
    return kind === "svg" ? file : await painted(file);
  } finally {
    posed.end();
    host.remove();
  }
}

async function painted(file) {
  const address = URL.createObjectURL(file), image = Object.assign(new Image(), { src: address });
  try {
    await image.decode();
    const canvas = el("canvas", { width: image.width * SHARP, height: image.height * SHARP });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}
