// A saved page that teaches: the lesson lies in it beside its run, and is known as `lesson` to who drives the page.

import { openFile, unpacked } from "./file.js";
import { Lesson } from "./lesson.js";

export async function openLesson(next, title) {
  let lesson = null;
  const stage = openFile({ at: "", play: false, onPlace: null, onDraw: () => lesson?.drew(), onTouched: (act, node) => lesson?.did(act, node) });
  const script = await unpacked("lesson"), teach = new URLSearchParams(location.search).get("teach") === "1";
  lesson = globalThis.lesson = new Lesson(stage, script, { teach, next: next && `${next}${location.search}`, title });
}
