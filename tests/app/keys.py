"""Walking through a page by the Tab key alone: what has the focus, and whether that is seen."""

from dataclasses import dataclass
from typing import Any

# Looked for inside of the components, which have trees of their own. A node of the tree shows it by a ring.
_FOCUSED = """() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  if (!at || at === document.body || at === document.documentElement) return null;
  const box = at.getBoundingClientRect(), style = getComputedStyle(at);
  const ring = at.querySelector?.(":scope > .ring");
  const lined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  const words = at.getAttribute("aria-label") || at.labels?.[0]?.textContent || at.textContent || at.placeholder
    || at.title || at.tagName;
  return {
    name: words.trim().replace(/\\s+/g, " ").slice(0, 60),
    role: at.getAttribute("role") || at.tagName.toLowerCase(),
    ours: Boolean(at.closest(".stage-around")),
    seen: lined || (ring !== null && ring !== undefined && Number(getComputedStyle(ring).opacity) === 1),
    inside: box.width > 0 && box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth,
  };
}"""


@dataclass(frozen=True)
class Stop:
    """Where the focus is. `ours`: in the stage or the row below it; `seen`: a line of two pixels or a ring around it;
    `inside`: within the window."""

    name: str
    role: str
    ours: bool
    seen: bool
    inside: bool


def focused(page: Any) -> Stop | None:
    """None: nothing on the page has it."""
    answer = page.evaluate(_FOCUSED)
    return Stop(**answer) if answer is not None else None


def tabbed(page: Any, most: int = 150) -> list[Stop]:
    """Every stop of the Tab key from where the focus is to the end of the page."""
    stops: list[Stop] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        stop = focused(page)
        if stop is None:
            return stops
        stops.append(stop)
    raise AssertionError(f"{most} times Tab, and no end: {[stop.name for stop in stops[-12:]]}")


def tab_to(page: Any, name: str, role: str = "", most: int = 150) -> Stop:
    """Press Tab until what is called so has the focus."""
    seen = []
    for _ in range(most):
        page.keyboard.press("Tab")
        stop = focused(page)
        if stop is not None:
            seen.append(stop.name)
            if stop.name.startswith(name) and role in ("", stop.role):
                return stop
    raise AssertionError(f"Tab does not come to {name!r}; it comes to {seen}")
