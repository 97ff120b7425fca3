"""The scores as a page of the documents, and as lines for a terminal."""

from collections.abc import Iterator, Sequence

from specviz.check.findings import FAULTS
from specviz.view.clinic.played import case_texts
from specviz_lab.clinic.case import fault_modules
from specviz_lab.clinic.levels import LEVELS, N_WINDOWS, Level
from specviz_lab.clinic.other_seeds import SeedScores
from specviz_lab.clinic.public import GOOD, PublicAnswer
from specviz_lab.clinic.score import Answer, Score

_SCORED = "scored"
_HALVES = ((True, "set on"), (False, _SCORED))
BARS = {"rounds": (0.95, 0.9), "history": (0.9, 0.75)}  # precision and recall that are asked of a level

_HEAD = f"""# The clinic

Sixteen faults, planted in real runs, and a healthy twin of each: what the judge (`specviz.judge`) makes of them.
This page is written by `specviz lab clinic score`, from the recordings in `benchmarks/clinic` and, one a fault, in
the package.

* **Plants.** Each fault is one file in `lab/specviz_lab/clinic/faults`: what disturbs the run is real (layers,
  positions, ids, caches, masks, rules, reports), the engine is not touched. Three seeds each: other prompts and
  draws. `specviz lab clinic make` makes them anew, or one alone.
* **Levels.** A history adds the rounds up in {N_WINDOWS} windows, totals add up all of them; beside them stands what
  servers have beside theirs: the settings (rule, temperature), how full the cache is, the engine's own means. Folders
  stand beside where a case has them, a second run without drafts beside the rounds alone; where passes were timed,
  beside counts as well, as the counts of a server without speculation.
* **Answers.** The first finding that names a fault and does not say *cannot tell*. Precision: the share of answers
  that are right; one on a healthy twin is wrong. Recall: the share of planted cases that are named.
* **Two halves.** Thresholds may be set on one half of the seeds, and are scored on the other. Which detectors there
  are was decided with both halves in sight, those of counts above all (before them .38 were named of histories).
* **Other seeds** are scored apart, below: once before anybody has looked at one of their cases, and again when
  detectors have been mended with them in sight. Any other one: `specviz lab clinic make --seed 17 --out clinic`, then
  `specviz lab clinic score clinic`.
* **Times.** What stages and plain passes took stands beside the rounds where the fault is one of cost (12, 13).
  Elsewhere it is left out: a pass of the embedded target takes a millisecond, beside which a round's own overhead
  says more than its drafts.
"""

_CANNOT = """## What a level cannot tell

* **Counts alone** (history, totals): texts that part (9), for nobody counts a text. A mask on the target alone (11),
  for it looks like a weaker drafter: the target's probabilities of what it refused would decide. A template put in
  twice (6), for both models read the same and agree as ever: the prompt would decide. (One that is left out is told by
  answers that end with their first token, which vLLM counts.) A state of the target that is not rolled back (10), for
  the target writes other text and the draft follows it: nothing is kept less. The draft's own state is told where
  another text grew as long and was kept; else acceptance falls in time, which is said, as *cannot tell*: the same
  prompts once more decide.
* **Totals**: a fall with the length of the text (4), a loop that begins after a while (16): both need windows.
* **Rounds**: the target's state that is not rolled back (10) at a temperature above 0, where two sound runs part as
  well: greedy text against plain decoding decides. A template left out (6), where the target goes on all the same.
* **Exact match** (8) is told by counts only where the settings name a rule that is not the method's own."""


def page(answers: Sequence[Answer], public: Sequence[PublicAnswer], others: Sequence[SeedScores]) -> str:
    """Markdown."""
    seeds = (_totals(answers), _other_seeds(others))
    parts = (*seeds, _by_fault(answers), [_CANNOT], _misses(answers), _public(public), _plants())
    return "\n".join([_HEAD, *(line for part in parts for line in (*part, ""))])


def public_lines(public: Sequence[PublicAnswer]) -> list[str]:
    """The public cases, for a terminal: how many are told, and each that is not."""
    good = sum(answer.verdict in GOOD for answer in public)
    missed = [f"public   {a.verdict}: {a.case.thread}: {a.words}" for a in public if a.verdict not in GOOD]
    return [f"public   {good} of {len(public)} cases as they were in the end", *missed] if public else []


def lines(answers: Sequence[Answer]) -> list[str]:
    """The scores over all, for a terminal."""
    return [
        f"{level:8} {half:6}  precision {_share(score.precision):>4}  recall {_share(score.recall):>4}  "
        f"right {score.n_right:2} of {score.n_planted:2}, named {score.n_named:2}, "
        f"healthy twins that were told sure {score.n_sure_twins}"
        for level, half, score in _scores(answers)
    ]


def _scores(answers: Sequence[Answer]) -> Iterator[tuple[Level, str, Score]]:
    """Of both halves at every level."""
    for level in LEVELS:
        for is_set, half in _HALVES:
            yield level, half, Score.of(a for a in answers if a.level == level and a.case.sets is is_set)


def _totals(answers: Sequence[Answer]) -> list[str]:
    out = [
        "## Over all",
        "",
        "| level | half | precision | recall | right / planted | named | twins told *sure* | asked |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for level, half, score in _scores(answers):
        bar = BARS.get(level)
        asked = f"{_share(bar[0])} / {_share(bar[1])}, 0" if bar and half == _SCORED else ""
        out.append(
            f"| {level} | {half} | {_share(score.precision)} | {_share(score.recall)} | {score.n_right} / "
            f"{score.n_planted} | {score.n_named} | {score.n_sure_twins} | {asked} |"
        )
    return out


def _other_seeds(others: Sequence[SeedScores]) -> list[str]:
    """A line a level; then what was missed."""
    out = [
        "## Other seeds",
        "",
        "Not recorded; thirty-two cases a seed, scored on the day that is named by the judge of that day, in",
        "`benchmarks/clinic-seeds.json` (`specviz lab clinic score FOLDER --keep`).",
        "",
        "| seeds | scored | level | precision | recall | right / planted | twins told *sure* | asked |",
        "|---|---|---|---|---|---|---|---|",
    ]
    misses = []
    for scores in others:
        seeds, when = ", ".join(map(str, scores.seeds)), f"{'unseen' if scores.unseen else 'seen'}, {scores.date}"
        for level, of_level in scores.levels.items():
            score, bar = of_level.score, BARS.get(level)
            right = f"{score.n_right} / {score.n_planted}"
            asked = f"{_share(bar[0])} / {_share(bar[1])}, 0" if bar else ""
            out.append(
                f"| {seeds} | {when} | {level} | {_share(score.precision)} | {_share(score.recall)} | {right} | "
                f"{score.n_sure_twins} | {asked} |"
            )
            if scores.unseen:
                misses.append(
                    f"* {seeds}, {level}: silent on {', '.join(of_level.silent) or 'none'}; named otherwise: "
                    f"{', '.join(of_level.wrong) or 'none'}."
                )
    return [*out, "", "Missed of the unseen ones (fault, planted or healthy, seed):", "", *misses]


def _by_fault(answers: Sequence[Answer]) -> list[str]:
    """Both halves together: three seeds say little of one fault."""
    out = [
        "## Fault by fault",
        "",
        "Both halves. Precision (of the answers that name this fault, on any case) and recall (of its three seeds).",
        "",
        "| fault | " + " | ".join(LEVELS) + " |",
        "|---|" + "---|" * len(LEVELS),
    ]
    for number, name in enumerate(FAULTS, 1):
        cells = []
        for level in LEVELS:
            here = [a for a in answers if a.level == level]
            named = sum(a.fault == number for a in here)
            right = sum(a.right for a in here if a.case.fault == number)
            planted = sum(a.case.ill for a in here if a.case.fault == number)
            precision = _share(right / named if named else None)
            cells.append(f"{precision} / {_share(right / planted if planted else None)}")
        out.append(f"| {number} {name} | " + " | ".join(cells) + " |")
    return out


def _misses(answers: Sequence[Answer]) -> list[str]:
    """What was named in place of the fault, and on twins."""
    out = ["## Wrong answers", "", "Case, level, what was said instead.", ""]
    wrong = [a for a in answers if a.fault and not a.right]
    for a in wrong:
        whose = "planted" if a.case.ill else "healthy twin"
        out.append(
            f"* {a.case.fault}, seed {a.case.seed}, {whose}, {a.level}: fault {a.fault}, {a.certainty} (`{a.detector}`)"
        )
    return out if wrong else [*out, "None."]


def _public(public: Sequence[PublicAnswer]) -> list[str]:
    out = [
        "## Public cases",
        "",
        "Logs, tables, answers and streams that people posted, rebuilt as text with invented names; causes as a "
        "maintainer or",
        "the finder told them. No threshold was set on them; what reads them was written for them.",
        "",
        "| thread | what it was | the judge | |",
        "|---|---|---|---|",
    ]
    return [*out, *(f"| {a.case.thread} | {a.case.was} | {a.words or '—'} | {a.verdict} |" for a in public)]


def _plants() -> list[str]:
    out = ["## What is planted", "", "| fault | what somebody posts | how it is planted |", "|---|---|---|"]
    for number, module in fault_modules().items():
        out.append(f"| {number} | {case_texts()[number]['posts']} | {module.PLANT} |")
    return out


def _share(value: float | None) -> str:
    """`.95`, `1`."""
    if value is None:
        return "—"
    return "1" if value == 1 else f"{value:.2f}".removeprefix("0")
