"""What `F1` says about a panel: what is in it, how to read it, which formula stands behind it.

`F1` opens the page of the panel in focus; not every panel can have it, so from each page arrows lead to all others."""

PAGES: dict[str, tuple[str, str]] = {
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
    "lanes": (
        "Lanes: who worked, who waited",
        "Time runs to the right; a row is a lane. ▤ a pass of the target, ▣ a forward of the draft model, ▥ one "
        "that drafts branches ahead of the verdict, ░ idle, ╳ what was rolled back: nothing drawn there became "
        "text. The row voids leads from the pass that judged back to the forwards it made void. A branch has a "
        "lane of its own, though all branches run in one batch.\n\n"
        "c switches between two clocks that are never mixed. The measured one shows what this machine did: on one "
        "device with lanes serial nothing overlaps. The modelled one plays the same rounds as if target and draft "
        "ran beside each other, at the measured cost of a forward (c = a target pass in draft forwards).\n\n"
        "Idle is not waste: waste is ╳. A draft stage leaves the target idle, and comes after every rollback; "
        "beside a pass, branches keep the draft model busy. ε (bar ┃) stops drafting before a token the draft "
        "model is unsure of; there k = max(1, ⌊k_max (1 − conf)⌋) branches open. p(B) is the target's share of "
        "their first tokens: under topk the chance of a hit.\n\n"
        "Costs: Theorem 1 averages rates and leaves out the token that a rejection still commits; the others are "
        "exact for i.i.d. acceptance. Beside each: its best length.",
    ),
    "layers": (
        "Layers: early exits",
        "One column a row of the model: a token that climbs, layer by layer. Under it stands its fate; earlier rounds "
        "lie to the left, one cell a row. Where a layer has a test, its head says which token comes next; conf is its "
        "largest probability at temperature T = 1 + α (1 − l/L). At conf ≥ τ the row stops (⇥) and that token is the "
        "next row. The last row climbs to the top: that climb is the target pass, for all rows at once.\n\n"
        "░▒▓█ are bands of conf. Values in brackets decided nothing: watched after the verdict (--observe-all on), or "
        "asked in a pass over the finished text (specviz sweep .. --write). ⇢ is where a row would stop if τ were the "
        "confidence under the cursor.\n\n"
        "Staircase: o the row climbed by itself, c a later row took it along (catch-up), a and s the last climb, below "
        "and above the deepest test. A number is the rows of that call. Every row passes every layer exactly once, so "
        "skipped layers are not saved arithmetic: what is saved are calls, that is time on one sequence.\n\n"
        "Ledger: a draft pays the layers of its climb and, if the target agrees, earns the L calls of a token. The "
        "sum is a L − Σ e; a round may lose. Right: the first layer whose head said what the target chose, and the "
        "first from which all did; regret is the stop less the first right layer.",
    ),
    "ranks": (
        "Ranks: what shaped the tree",
        "A block is one call's run of slots: slot k speaks of the k-th token ahead. b2·s1 #3 is a node that slot 1 of "
        "block 2 offered as its third choice. The spine (━) is each slot's first choice; a sibling gets children only "
        "where a later block starts (▸). ⊕ was offered by more than one slot and merged. The number behind is the "
        "chance the draft gives the whole path; the nodes with the largest are sent, the others pruned.\n\n"
        "Before it offers anything, a small head predicts in which bucket the target's token stands among the slot's "
        "choices: 1, 2 to 4, 5 to 10, or lower. The bucket sets how many children the slot gets (knob widths).\n\n"
        "The table counts predicted (rows) against true (columns). Right of the diagonal (›) the slot was too narrow: "
        "if the token was not offered, a walk that comes there ends. Left of it (‹) it was too wide: nodes that buy "
        "nothing. ⊘ gave up though the token was within reach. These do not cost the same. f counts the path only: "
        "there the prefix is right, and the token is the one that was written; otherwise it is the target's best at "
        "every node it saw. c and s choose a block and a slot.\n\n"
        "Learning while serving: after each query a bandit weighs two updates against doing nothing, in seconds. "
        "├ ● ┤ are the least, the expected and the most profit; it takes one that pays for sure, or tries one within "
        "a small budget. Regret is what a decision gave up against the best expected profit. The text never depends "
        "on it.",
    ),
    "scan": (
        "HSD: the backward scan",
        "One drawn chain, one column a position. r is the joint ratio: what the target gives the whole prefix over "
        "what the draft gave it. c is r divided by its running maximum, so never above 1: what the prefix is worth. "
        "Below each prefix D+ is the target mass its continuations miss (Σ max(0, c·p − q)), D- the draft mass they "
        "have too much of.\n\n"
        "The scan begins at the last position and tests u < h, with h = D+/D- and at the last position c itself. The "
        "first test that passes ends it: that prefix is kept whole, and with it positions whose own test would have "
        "failed (marked *). That is what a backward scan gains on token-wise tests, which stop at the first failure. "
        "When nothing passes, nothing is kept.\n\n"
        "Capped HSD and blockwise verification are the same algorithm: same h, same residual, same law. hsd_naive uses "
        "r without the cap, keeps more, and pays with carried rounds. hsd_ref leaves out the cap at the last position "
        "alone, as released code does: it keeps drafts it should not, and the text leaves the target's law.\n\n"
        "The staircase below: r climbs and falls, the cap line rides on its peaks, c hangs below 1 by what was lost "
        "since the peak.",
    ),
    "rules": (
        "Same draft, same u",
        "The draft of this round, decided again by three rules with the uniforms of this very round (they follow from "
        'the seed, so no model is asked). ▶ is the rule of the run. "expected" is the number of tokens a rule keeps of '
        "this draft on average over the uniforms: the sum of its credits, Π min(1, p/q) for token-wise, c for "
        "blockwise and hsd, min(1, r) for naive. On average hsd keeps at least as many as token-wise; on one draw "
        "it may not.\n\n"
        "Below the box: the paired difference to token-wise over the run, with its 95 % interval.",
    ),
    "residual": (
        "The row at the stop",
        "The token that closes the round is drawn from max(0, c·p − q), c of the kept prefix, scaled to sum to one; "
        "after the whole draft was kept, from the target's row. left is the difference, share its part of the draw. "
        "hsd_naive takes r in place of c: where r is above 1, max(0, p − q/r).",
    ),
    "branches": (
        "Below each prefix",
        "The mass that both laws give the continuations of a prefix (░), what the target's row, weighted with c, has "
        "and the draft lacks (█ D+), and what the draft has too much of (▒ D-). D+ over D- is the keep chance.",
    ),
    "survival": (
        "Over the run",
        "Survival at t: the share of drafts, of those at least t long, of which at least t tokens were kept; in "
        "brackets Wilson's 95 % interval. Beside it what each rule must give on these very drafts, exactly: the mean "
        "of its credit at t. The observed column must follow the rule of the run (▶), up to chance. For a backward "
        "scan this replaces acceptance per position, which has no meaning there.",
    ),
    "status": (
        "Status",
        "State, models (target ⇐ draft), method and verifier with what they promise about the text, sampling, "
        "recording, and "
        "what the instrumentation cost.",
    ),
}


NAMES = tuple(PAGES)


def page(name: str) -> tuple[str, str]:
    """Title and text of a panel; that of the tree for one without a page."""
    return PAGES.get(name, PAGES["tree"])


def beside(name: str, step: int) -> str:
    """The page so many further on, round and round: every page can be turned to from every other."""
    at = NAMES.index(name) if name in NAMES else 0
    return NAMES[(at + step) % len(NAMES)]


def number(name: str) -> str:
    """`3 of 15`."""
    return f"{NAMES.index(name) + 1 if name in NAMES else 1} of {len(NAMES)}"
