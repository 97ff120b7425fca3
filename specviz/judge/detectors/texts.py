"""What the text and single tests tell: greedy texts that part (fault 9), state that stays behind a rejection or an
answer (10), a grammar or template on one side only (11, 6)."""

from itertools import combinations

from specviz.judge.evidence import Evidence, RoundsCounted
from specviz.judge.finding import EvidencePlace, Finding
from specviz.judge.registry import detector
from specviz.numerals import percent, plural

ENOUGH = 30  # rounds, or tests, of each kind that are compared
FAR_LESS = 0.35  # of what is kept of words, below which a class of tokens is lost
WORSE = 0.5  # of what is kept behind a draft that was kept whole
RULED_OUT = 0.1  # of failed tests, above which something forbids tokens
BITWISE = "bitwise"  # what a run says of a target whose rows do not depend on what else is in a pass


@detector(Evidence, 35)
def greedy_texts_part(evidence: Evidence) -> Finding | None:
    """Two runs of one prompt at temperature 0 whose texts are not the same."""
    greedy = [counted for counted in evidence.rounds if counted.temperature == 0]
    for first, other in combinations(greedy, 2):
        by_prompt = {prompt: text for prompt, text in other.tally.texts.texts.values() if text}
        for q, (prompt, text) in first.tally.texts.texts.items():
            at = _parts(text, by_prompt.get(prompt, text))
            if at is None:
                continue
            exact = all(_is_bitwise(counted) for counted in (first, other))
            where = f"q{q} token {at + 1}" if len(first.run.queries) > 1 else f"token {at + 1}"
            return Finding(
                "greedy_texts_part",
                9,
                f"greedy texts part at token {at + 1}",
                f"Two runs of one prompt at temperature 0 write the same {plural(at, 'token')} and then part. There "
                "the law of the text is its tokens, so one of the two is not what plain decoding writes"
                + (
                    ", for rows are bitwise the same in every pass here."
                    if exact
                    else ", or two tokens were nearly level."
                ),
                "sure" if exact else "cannot tell",
                next_step="Decode the prompt plainly, and look at the target's first two tokens there (logprobs): a "
                "margin of a few hundredths is rounding, a wide one is a fault of the engine.",
                decides="" if exact else "The margin between the target's two likeliest tokens at that place.",
                others=(10,),
                evidence=(EvidencePlace(at, where, kind="line"),),
            )
    return None


@detector(Evidence, 36)
def texts_unknown(evidence: Evidence) -> Finding | None:
    """Several runs by counts alone: whether they write the same is not on record."""
    if len(evidence.rounds) < 2 or any(text for c in evidence.rounds for _, text in c.tally.texts.texts.values()):
        return None
    return Finding(
        "texts_unknown",
        9,
        "whether the texts are the same is not on record",
        f"{len(evidence.rounds)} runs are known by their counts alone, without one token: equal lengths are no equal "
        "texts.",
        "cannot tell",
        next_step="Save the answers with their tokens, or their text, and hold those against each other.",
        decides="The tokens of both, at temperature 0.",
        screen="overview",
    )


def _parts(text: list[int], other: list[int]) -> int | None:
    """How many tokens are the same before they part; None: as far as both go."""
    return next((k for k, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), None)


def _is_bitwise(counted: RoundsCounted) -> bool:
    header = counted.run.header
    return header is not None and header.env.get("exact") == BITWISE


@detector(RoundsCounted, 46)
def worse_behind_a_rejection(counted: RoundsCounted) -> Finding | None:
    """The first token fares far worse behind a rejection: what was rejected is still in a state."""
    from specviz.metrics import wilson_interval

    (n_whole, whole), (n_behind, behind) = counted.tally.texts.behind[False], counted.tally.texts.behind[True]
    if min(n_whole, n_behind) < ENOUGH:
        return None
    most, least = wilson_interval(behind, n_behind)[1], wilson_interval(whole, n_whole)[0]
    if most >= WORSE * least:
        return None
    return Finding(
        "worse_behind_a_rejection",
        10,
        "drafts fail behind a rejection",
        f"Behind a draft kept whole the first token is kept in {percent(whole / n_whole)} of {n_whole} rounds, "
        f"behind a rejection in {percent(behind / n_behind)} of {n_behind}.",
        "likely",
        next_step="See that caches and running states of draft and target are cut back to the kept tokens after every "
        "rejection; hold the text against plain decoding.",
        decides="The text against plain decoding of the same prompts: hard passages come in stretches as well.",
        others=(2,),
        tokens=whole / n_whole - behind / n_behind,
        evidence=counted.places(counted.tally.texts.seen.get("behind", ())),
    )


@detector(RoundsCounted, 47)
def ruled_out(counted: RoundsCounted) -> Finding | None:
    """The target gives drafted tokens no chance at all, and no setting of its own does that."""
    from specviz.metrics import wilson_interval

    n, none = counted.tally.texts.n_refused, counted.tally.texts.n_ruled_out
    if not counted.temperature or counted.truncated or n < ENOUGH or wilson_interval(none, n)[0] < RULED_OUT:
        return None
    return Finding(
        "ruled_out",
        11,
        "the target rules out what is drafted",
        f"Of {n:,} drafted tokens that were refused the target gave {none:,} no chance at all, which no temperature "
        "does: a grammar, a processor or a mask works on the target alone.",
        "likely",
        next_step="Give the drafter the same grammar or processor, or draft nothing where it holds.",
        decides="The same prompts without the grammar.",
        others=(5,),
        tokens=none / counted.metrics.n_rounds,
        evidence=counted.places(counted.tally.texts.seen.get("ruled out", ())),
    )


@detector(RoundsCounted, 75)
def one_class_is_lost(counted: RoundsCounted) -> Finding | None:
    """Tokens of one class (signs of JSON and code, numbers, marks of a template) are kept far less often than words."""
    from specviz.metrics import wilson_interval

    by_class = counted.tally.texts.by_class
    tests, kept = by_class.get("word", (0, 0))
    if tests < ENOUGH:
        return None
    least, lost = wilson_interval(kept, tests)[0], []
    for name in ("mark", "sign", "number"):
        n, k = by_class.get(name, (0, 0))
        if n >= ENOUGH and wilson_interval(k, n)[1] < FAR_LESS * least:
            lost.append((k / n, name, n))
    if not lost:
        return None
    share, name, n = min(lost)
    return Finding(
        "one_class_is_lost",
        6 if name == "mark" else 11,
        f"{name}s are hardly ever kept",
        f"Of drafted {name}s {percent(share)} are kept (n {n}), of words {percent(kept / tests)} (n {tests}).",
        "cannot tell",
        next_step="See that draft and target read one template and one grammar: what shapes the text works on both.",
        decides="The same prompts as plain prose, without template or JSON mode.",
        others=(11,) if name == "mark" else (6,),
        tokens=n * (kept / tests - share) / counted.metrics.n_rounds,
        evidence=counted.places(counted.tally.texts.seen.get(name, ())),
    )


@detector(RoundsCounted, 86)
def answers_change(counted: RoundsCounted) -> Finding | None:
    """From one answer on, drafts fare otherwise than before."""
    from specviz.engines.watch.changes import change_points

    answers = [(n, [k]) for n, k in counted.tally.texts.answers]
    falls = [change for change in change_points(answers) if change.after < change.before]
    if not falls:
        return None
    first = falls[0]
    return Finding(
        "answers_change",
        10,
        f"acceptance fell at answer {first.at + 1}",
        f"Up to answer {first.at} the first drafted token is kept in {percent(first.before)} of the rounds, from then "
        f"on in {percent(first.after)}.",
        "cannot tell",
        next_step="Send the first prompts once more: if they fare as before the prompts changed, else something stayed "
        "in a state.",
        decides="The first prompts again, at the end.",
        others=(6,),
        tokens=first.before - first.after,
        evidence=counted.places(
            counted.tally.texts.first_draft(k) for k in range(first.at, min(first.at + 6, len(answers)))
        ),
    )
