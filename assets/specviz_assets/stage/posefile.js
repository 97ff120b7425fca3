// A saved page as a picture, for who drives it from outside.

import { sourceHere } from "./file.js";
import { PosedStage } from "./pose.js";

export function poseFile(theme, wide) {
  globalThis.posed = new PosedStage(document.body, sourceHere(), { theme, wide });
}
