"""What `F1` says about a panel: what is in it, how to read it, which formula stands behind it.

`F1` opens the page of the panel in focus; not every panel can have it, so from each page arrows lead to all others."""

from specviz_tui.common.pane import all_panes

_PAGES: dict[str, tuple[str, str]] = {
    "tree": (
        "Draft tree",
        "What was drafted in this round, one column per depth. The root on the left is the last committed token; "
        "it was text before the round began. Each node shows a glyph for its fate, the token, and one value: "
        "press v for q (probability the drafter gave it), p (probability the target gives it), p/q, u (the "
        "uniform draw of its test) or its rank under the target.\n\n"
        "The target looks at the whole tree in one pass. Then the rule walks it from the root: siblings are "
        "tested in the order they stand, the first one kept opens the next column, and where all fail a token is "
        "drawn from what is left (recovered, ↻). When a whole path is kept, one more token is free (bonus, "
        "★).\n\n"
        "Places are fixed for the whole round: . and , step through its phases, { and } jump between rejections.",
    ),
    "why": (
        "Why",
        "The decision on the selected node, from what was recorded.\n\n"
        "tokenwise: keep when u < min(1, p/q). After a rejection the next candidate, and in the end the recovered"
        " token, meet the residual max(0, p - q), scaled to sum to one. That is what makes the text follow the "
        "target exactly.\n\n"
        "walk: a token is drawn from the target; if it is in the draft, the draft was right. The interval is the "
        "stretch of [0, 1) that falls to the token; u says where the draw fell.\n\n"
        "Flip is the smallest change of u that would change this one decision. Text after it could differ.",
    ),
    "text": (
        "Text",
        "The prompt, then the committed tokens, coloured and marked by how they came: accepted ✓, recovered ↻, "
        "bonus ★, plain ◦ where no draft was kept before it. A bar │ begins a round. Behind the last one stand the "
        "tokens that are still on the table; they may vanish. t goes through words, raw tokens and ids. A click on a "
        "token goes to its round.",
    ),
    "knobs": (
        "Knobs",
        "Every knob of the running method. Arrows choose and change, a sends what is staged, z takes a change "
        "back, x stages the default, enter takes a typed value. The core applies a knob when the next round "
        "begins and says in which one; → is staged, ⇒ is sent and not yet confirmed.\n\n"
        "No knob of a lossless method changes the law of the text; the sampling knobs (temperature, top_p, ..) "
        "do, since "
        "they change what is asked for. In a recording nothing can be changed.",
    ),
    "timeline": (
        "Time line",
        "Tokens per round; the lowest bar is the least a round can bring. The line below is the whole run: ● is "
        "where you are, ◆ a knob change, ⚑ a bookmark, ⚠ a warning; of several in one cell the gravest shows. w lists "
        "the warnings, B the bookmarks. Click or drag to go there, g to type a place. Live, End follows the newest "
        "round; pausing freezes the view while the recording goes on.",
    ),
    "numbers": (
        "Numbers",
        "len is mean_acceptance_length: tokens per round, the recovered or bonus token included. acc/drafted is "
        "draft_acceptance_rate: accepted over drafted tokens. acc/tested is test_acceptance_rate: accepted over "
        "tested ones. "
        "± is half of the 95 % interval over the rounds of the run; [a, b] is the interval itself, where the number "
        "does not stand in its middle, as near 0 and 1. Rounds that are all alike show no spread, so a mean of them "
        "has no interval: n too small, or all alike.\n\n"
        "tok/s counts the time of the rounds, not of the prompt. probe is what recording cost beside the rest of the "
        "rounds; from a doubling on, how many times as long they took.",
    ),
}
_STATUS = {
    "status": (
        "Status",
        "State, models (target ⇐ draft), method and verifier with what they promise about the text, sampling, "
        "recording, and "
        "what the instrumentation cost.",
    )
}


def pages() -> dict[str, tuple[str, str]]:
    """Every page by its name, in the order in which they are turned."""
    panes = sorted(all_panes(), key=lambda pane: pane.EXPLAIN)
    return {**_PAGES, **{name: text for pane in panes for name, text in pane.PAGES.items()}, **_STATUS}


def page(name: str) -> tuple[str, str]:
    """Title and text of a panel; that of the tree for one without a page."""
    found = pages()
    return found.get(name, found["tree"])


def beside(name: str, step: int) -> str:
    """The page so many further on, round and round: every page can be turned to from every other."""
    names = list(pages())
    return names[(names.index(name) + step) % len(names) if name in names else step % len(names)]


def number(name: str) -> str:
    """`3 of 15`."""
    names = list(pages())
    return f"{names.index(name) + 1 if name in names else 1} of {len(names)}"
