// What can be taken away from the picture: the run as one file, this moment, this round, its tables, the way here.

import { button, el, put } from "./dom.js";
import { pictureOf } from "./pose.js";

const ENDS = { csv: "zip", parquet: "zip" };
const HERE = ["svg", "png"]; // made in this page
const SHARED = [
  ["svg", "this moment as SVG"],
  ["png", "this moment as PNG"],
  ["gif", "this round as GIF"],
  ["csv", "tables of the run, CSV"],
  ["parquet", "tables of the run, Parquet"],
];

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

// A file that somebody else makes; a long one takes a while, and is asked for once at a time.
async function fetchFile(line, item, promise, name) {
  if (item.getAttribute("aria-busy") === "true") return;
  item.setAttribute("aria-busy", true);
  put(line, "it is being made…");
  try {
    download(await promise(), name());
    put(line, `saved as ${name()}`);
    item.removeAttribute("aria-busy");
    return true;
  } catch (error) {
    put(line, `The file cannot be made: ${error.message}`);
  }
  item.removeAttribute("aria-busy");
  return false;
}

function asked(stage, kind) {
  return new URLSearchParams({ share: kind, round: stage.index, theme: stage.dark ? "dark" : "light" }).toString();
}

function named(stage, kind) {
  const place = ENDS[kind] ? kind : stage.place.replaceAll(/[^a-z0-9]+/g, "-");
  return `${stage.head.name}-${place}.${ENDS[kind] ?? kind}`;
}

// The address of this page with the place in it; where it cannot be copied it is shown, to be copied by hand.
async function copyLink(stage, line) {
  const link = new URL(location.href);
  link.searchParams.set("at", stage.place);
  try {
    await navigator.clipboard.writeText(link.href);
    put(line, "the link is copied");
  } catch {
    put(line, link.href);
  }
}

export function shareMenu(stage) {
  const { save, share } = stage.options;
  if (!save && !share) return null;
  const items = el("div", { role: "menu", "aria-label": "save or share" }), line = el("p", { class: "dim", role: "status" });
  const item = (name, words, deed) => {
    const entry = el("button", { type: "button", role: "menuitem", "data-share": name, text: words });
    entry.onclick = async () => {
      if (await deed(entry) && !list.hidden) {
        show(false);
        opener.focus();
      }
    };
    items.append(entry);
  };
  if (save) item("html", "the run as one HTML file", (entry) => fetchFile(line, entry, save, () => `${stage.head.name}.html`));
  if (share) {
    for (const [kind, words] of SHARED) {
      item(kind, words, (entry) => {
        const name = named(stage, kind);
        const make = () => (HERE.includes(kind) ? pictureOf(stage, kind) : share(asked(stage, kind)));
        return fetchFile(line, entry, make, () => name);
      });
    }
    item("link", "copy link to this place", () => copyLink(stage, line));
  }
  const list = el("div", { class: "menu" }, items, line);
  list.hidden = true;
  const opener = button("save", "save or share", () => show(list.hidden));
  opener.setAttribute("aria-haspopup", "menu");
  opener.setAttribute("aria-expanded", "false");
  const box = el("div", { class: "share" }, opener, list);
  function show(open) {
    list.hidden = !open;
    opener.setAttribute("aria-expanded", open);
    put(line, "");
    if (!open) return;
    list.style.right = "0";
    const over = stage.box.getBoundingClientRect().left - list.getBoundingClientRect().left;
    if (over > 0) list.style.right = `${-over}px`; // on a phone it begins where the picture does
    items.firstChild.focus();
  }
  box.addEventListener("keydown", (event) => {
    const all = [...items.children], step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (list.hidden || (!step && event.key !== "Escape")) return;
    event.preventDefault();
    event.stopPropagation();
    if (step) all[(all.indexOf(event.target) + step + all.length) % all.length].focus();
    else {
      show(false);
      opener.focus();
    }
  });
  box.addEventListener("focusout", () => setTimeout(() => {
    if (!box.matches(":focus-within")) show(false);
  }));
  return box;
}
