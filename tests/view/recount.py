"""Every number of every why panel, worked out again from the record and compared with the digits that are printed.

Nothing of `specviz.view` is used but the panel itself: numbers come from the fields of the records, p from the largest
entries of the target's row where they list the token (`verify.top`), else from `logp`. A number that no rule below
knows is a complaint too, so that a new sentence needs a line here.
"""

# ruff: noqa: E501
# (a pattern is read as one line)

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from specviz import events as ev
from specviz.probability.philox import uniform

Text = tuple[int, ...]
NUMBER = r"(?:[<>]?-?(?:\d[\d,]*)?\.?\d+(?:e[+-]?\d+)?|∞)"
STRETCH = r"(?:\[[^)]*\)|a slit of \S+ (?:at 0|at \.\d+|just above 0|just below 1))"
_SIX = 2e-5  # what is worked out from logs of six figures
BACKWARD = {"blockwise", "hsd", "hsd_naive", "hsd_ref", "multi_hsd", "multi_traversal"}


def printed_as(text: str, value: float, slack: float = 0.0) -> bool:
    """Whether a printed number is `value` to its last digit. `slack`: how far `value` itself may be off, relatively."""
    text = text.strip()
    if text == "∞":
        return value == math.inf
    bound = text[0] if text[0] in "<>" else ""
    digits = text.lstrip("<>").replace(",", "")
    shown = float(digits)
    if bound:
        return 0 < value < shown * (1 + slack) if bound == "<" else shown * (1 - slack) < value < 1 + slack
    mantissa, _, power = digits.partition("e")
    unit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    return abs(shown - value) <= unit / 2 * (1 + 1e-6) + abs(value) * slack + 1e-15


def percent_as(text: str, value: float, slack: float = 0.0) -> bool:
    """The same of `29 %`."""
    number = text.removesuffix("%").strip()
    if number == "0":
        return value == 0
    if number == "100":
        return value == 1
    return 99.9 < value * 100 < 100 if number == ">99.9" else printed_as(number, value * 100, slack)


def log_of(log: float | None) -> float | None:
    return None if log is None else -math.inf if log <= ev.ZERO else log


def linear(log: float | None) -> float | None:
    return None if log is None else 0.0 if log <= ev.ZERO else math.exp(log)


@dataclass
class Facts:
    """A round, straight from its records."""

    header: ev.Header
    prefill: ev.Prefill
    temperature: float
    nodes: Mapping[int, ev.Node]  # that this round judged or drew
    verdicts: Mapping[int, ev.Verify]
    chains: Mapping[int, ev.Chain]
    closing: ev.Closing | None
    r: int
    settled: frozenset[int] = frozenset()  # drafted beside the target's pass, their fate told in this round

    @property
    def backward(self) -> bool:
        return self.header.verifier in BACKWARD

    @property
    def old(self) -> bool:
        return self.header.v < (1, 2)

    @cached_property
    def texts(self) -> dict[int, Text]:
        out: dict[int, Text] = {}
        for i in sorted(self.nodes):
            out[i] = (*out.get(self.nodes[i].parent, ()), self.nodes[i].token)
        return out

    def place(self, node: int) -> list[int]:
        """Nodes that compete for one place, in id order."""
        return [i for i in sorted(self.nodes) if self.texts[i][:-1] == self.texts[node][:-1]]

    def earlier(self, node: int) -> list[int]:
        """Of those, tested before and failed, in the order of the tests."""
        own = self.verdicts[node].order
        rejections = [(v.order, i) for i in self.place(node) if (v := self.verdicts.get(i)) and v.status == "rejected"]
        return [
            i for order, i in sorted((o, i) for o, i in rejections if o is not None) if own is not None and order < own
        ]

    def p(self, node: int) -> float | None:
        """From the row; None where an old trace has nothing else than what failed siblings left."""
        verdict, listed = self.verdicts.get(node), self.listed(node)
        if verdict is None or verdict.logp is None:  # pruned
            return None
        if listed is not None and self.temperature > 0:
            return listed
        if self.old and verdict.kind == "test" and verdict.thr is not None and self.rivals(node):
            return self.p_of_chain(node)
        return linear(verdict.logp)

    def p_of_chain(self, node: int) -> float | None:
        """By the joint ratios with and without the node; None where they are not on record."""
        at, parent, q = self.chains.get(node), self.nodes[node].parent, self.q(node)
        above = self.chains[parent].log_r if parent in self.chains else 0.0
        if at is None or q is None or (parent in self.nodes and parent not in self.chains) or above <= ev.ZERO:
            return None
        return 0.0 if at.log_r <= ev.ZERO else math.exp(at.log_r - above) * q

    def rivals(self, node: int) -> bool:
        others = (self.verdicts.get(i) for i in self.place(node) if i != node)
        return any(v is not None and v.status == "rejected" and v.order is not None for v in others)

    def listed(self, node: int) -> float | None:
        tops = (v.top for i in self.place(node) if (v := self.verdicts.get(i)) and v.top)
        return next((linear(log) for top in tops for t, log in top if t == self.nodes[node].token), None)

    def q(self, node: int) -> float | None:
        return linear(self.nodes[node].logq)

    def left(self, node: int) -> tuple[float, float] | None:
        """`(mass, how far it may be off)` of what failed siblings left; None where none had failed."""
        verdict = self.verdicts[node]
        if verdict.kind == "draw":
            return self._left_of_draw(node)
        if not self.old:
            mass = linear(verdict.log_left)
            return None if mass is None else (mass, _SIX)
        mass, p = linear(verdict.logp), self.p(node)
        if mass is None or not self.rivals(node) or verdict.thr is None:
            return None
        return None if self.backward and (p is None or abs(mass - p) <= _SIX * max(mass, p)) else (mass, _SIX)

    def _left_of_draw(self, node: int) -> tuple[float, float] | None:
        if self.verdicts[node].order is None or not self.earlier(node):
            return None
        gone: dict[int, float] = {}
        for i in self.earlier(node):
            p = self.p(i)
            assert p is not None
            gone[self.nodes[i].token] = p
        p, rest = self.p(node), 1 - sum(gone.values())
        assert p is not None
        if self.nodes[node].token in gone:
            return 0.0, 0.0
        if rest <= 1e-5:  # beyond what six figures tell
            return None
        return min(1.0, p / rest), (_SIX * sum(gone.values()) + 2e-7) / rest + _SIX

    def path(self, node: int) -> list[int]:
        out = [node]
        while self.nodes[out[0]].parent in self.nodes:
            out.insert(0, self.nodes[out[0]].parent)
        return out

    @cached_property
    def tests(self) -> list[ev.Verify]:
        return sorted((v for v in self.verdicts.values() if v.order is not None), key=lambda v: v.order or 0)

    def log_r(self, node: int) -> float:
        """Joint ratio of the prefix, from the target's own rows; a recorded chain has more figures."""
        if node in self.chains:
            return log_of(self.chains[node].log_r)  # type: ignore[return-value]
        total = 0.0
        for i in self.path(node):
            p, q = self.p(i), self.q(i)
            if not p:
                return -math.inf
            total += math.log(p) - math.log(q or 1)
        return total

    def log_c(self, node: int) -> float:
        if node in self.chains:
            return log_of(self.chains[node].log_c)  # type: ignore[return-value]
        out = 0.0
        for i in self.path(node):
            p, q = self.p(i), self.q(i)
            out = min(0.0, out + math.log(p) - math.log(q or 1)) if p else -math.inf
        return out

    def twin_test(self, node: int) -> ev.Verify | None:
        """The test that was made on this node and stands on its kept twin."""
        if not self.old:
            return next((v for v in self.verdicts.values() if v.judged == node), None)
        kept = [i for i in self.place(node) if i != node and self.texts[i] == self.texts[node]]
        return next((self.verdicts[i] for i in kept if i in self.verdicts and self.judged(i) == node), None)

    def judged(self, node: int) -> int | None:
        verdict = self.verdicts[node]
        if not self.old:
            return verdict.judged
        if verdict.kind != "test" or verdict.u is None or verdict.status != "accepted":
            return None
        for i in self.place(node):
            if self.texts[i] == self.texts[node] and self.key(i) == verdict.u:
                return i if i != node else None
        return None

    def key(self, node: int) -> float:
        """The accept draw of a node: a function of its ordinal among the judged of its position."""
        pos = self.nodes[node].pos
        level = [
            i for i in sorted(self.nodes) if self.nodes[i].pos == pos and self.nodes[i].kept and i in self.verdicts
        ]
        return uniform(self.prefill.seed, "accept", self.r, pos, level.index(node))


def rounds(events: list[Any]) -> Iterator[Facts]:
    """Every finished round of a trace, in order; the round before an aborted one of the same number is void."""
    header, knobs, prefill = None, {}, None
    known: dict[int, ev.Node] = {}
    due: list[ev.Knob] = []
    here: dict[str, Any] = {}
    for event in events:
        if isinstance(event, ev.Header):
            header, knobs = event, {**event.knobs, **event.sampling}
        elif isinstance(event, ev.Prefill):
            prefill, known = event, {}
        elif isinstance(event, ev.Knob):
            due.append(event)
        elif isinstance(event, ev.RoundStart):
            for knob in [k for k in due if (k.q, k.applied_r) <= (event.q, event.r)]:
                knobs[knob.name] = knob.new
                due.remove(knob)
            here = {"nodes": {}, "verdicts": {}, "chains": {}, "closing": None, "settled": frozenset()}
        elif isinstance(event, ev.Node):
            known[event.node] = here["nodes"][event.node] = event
        elif isinstance(event, ev.Verify):
            here["verdicts"][event.node] = event
        elif isinstance(event, ev.Chain):
            here["chains"][event.node] = event
        elif isinstance(event, ev.Closing):
            here["closing"] = event
        elif isinstance(event, ev.Settle):
            here["settled"] |= {node for node, _ in event.fates}
        elif isinstance(event, ev.RoundEnd) and here:
            assert header is not None
            assert prefill is not None
            nodes = {i: known[i] for i in sorted({*here["nodes"], *here["verdicts"]} & set(known))}
            rest = {k: v for k, v in here.items() if k != "nodes"}
            yield Facts(header, prefill, float(knobs["temperature"]), nodes, **rest, r=event.r)


# The rows -----------------------------------------------------------------------------------------------------------


@dataclass
class Panel:
    """A panel beside the facts it must follow from; `complaints` fill up."""

    why: Any
    facts: Facts
    node: int
    complaints: list[str]

    def expect(self, holds: bool, message: str, meant: object = "") -> None:
        if not holds:
            self.complaints.append(f"r{self.facts.r} n{self.node}: {message} (must be {meant})")

    def number(self, text: str, value: float | None, message: str, slack: float = 0.0) -> None:
        """A printed number, or a dash for one that is not known."""
        if value is None or text == "—":
            self.expect(value is None and text == "—", f"{message} {text}", value)
        else:
            self.expect(printed_as(text, value, slack), f"{message} {text}", value)

    def check(self) -> None:
        rows = {row.label: row for row in self.why.rows}
        for label, row in rows.items():
            rule = _ROWS.get(label)
            self.expect(rule is not None, f"row '{label}' has no rule")
            if rule is not None:
                rule(self, row)
        self.owed(rows)
        self.sentences(self.why.words)
        self.flip()
        self.rank()
        verdict = self.facts.verdicts.get(self.node)
        if verdict is not None and verdict.order is not None and " · test " in self.why.headline:
            n = len(self.facts.tests)
            self.expect(self.why.headline.endswith(f"test {verdict.order + 1} of {n}"), self.why.headline, n)
        if self.why.cost is not None:
            self.number(self.why.cost.split()[0], self.never_tested(), "cost")

    def owed(self, rows: Mapping[str, Any]) -> None:
        """What the record knows must be shown: p is p, and what siblings left has a row of its own."""
        f, verdict = self.facts, self.facts.verdicts.get(self.node)
        if verdict is None or not self.why.decided or f.temperature == 0 or not f.nodes[self.node].kept:
            return
        self.expect("p  target" in rows, "no row for p")
        left = f.left(self.node)
        if verdict.kind != "draw" or left is not None or not f.earlier(self.node):  # else beyond six figures
            self.expect(("R  residual" in rows) == (left is not None), "row for what is left", left)
        judged, here = f.judged(self.node), f.twin_test(self.node)
        self.expect(("judged" in rows) == (judged is not None or here is not None), "row for the twin", judged)

    def never_tested(self) -> int:
        f = self.facts
        below = [i for i in f.nodes if i != self.node and self.node in f.path(i) and f.nodes[i].kept]
        decided = {*f.verdicts, *f.settled}
        ahead = [i for i in below if i not in decided and f.nodes[i].branch is not None]
        return sum(i not in ahead and (i not in f.verdicts or f.verdicts[i].status == "untested") for i in below)

    def rank(self) -> None:
        verdict = self.facts.verdicts.get(self.node)
        if self.why.rank is None or verdict is None:
            return
        matches = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+)(?:st|nd|rd|th)", self.why.rank)]
        self.expect(matches == [r for r in (verdict.rank_q, verdict.rank_p) if r is not None], self.why.rank, matches)

    def flip(self) -> None:
        flip, verdict = self.why.flip, self.facts.verdicts.get(self.node)
        if flip is None or verdict is None or verdict.u is None:
            return
        text, u, thr = flip.text, verdict.u, verdict.thr
        if (match := re.fullmatch(rf"rejected from u ≥ ({NUMBER})", text)) or (
            match := re.match(rf"would be accepted for u < ({NUMBER})", text)
        ):
            self.number(match[1], thr, text)
            slack = re.search(rf"slack ≥ ({NUMBER})", text)
            if slack:
                self.number(slack[1], u - (thr or 0), text)
        elif match := re.fullmatch(rf"(?:another token for u outside|would be accepted for u in) ({STRETCH})", text):
            self.span(match[1], verdict.interval, text)
        else:
            sure = {"no u rejects it": thr is not None and thr >= 1, "no u accepts it": thr is not None and thr <= 0}
            empty = verdict.interval is not None and verdict.interval[0] == verdict.interval[1]
            self.expect(sure.get(text, text == "no u draws it" and empty), text, thr)

    def span(self, text: str, held: tuple[float, float] | None, message: str) -> None:
        """An interval by its ends, which are seen to be two; or by its width and place."""
        match = re.fullmatch(rf"\[({NUMBER}), ({NUMBER})\)|a slit of ({NUMBER}) (?:at ({NUMBER})|just .*)", text)
        self.expect(match is not None and held is not None, message, held)
        if match is None or held is None:
            return
        for printed, value in zip(match.groups(), (*held, held[1] - held[0], held[0]), strict=True):
            if printed is not None:
                self.number(printed, value, message)
        self.expect(match[3] is not None or float(match[1]) < float(match[2]), f"empty as printed: {message}", held)

    # The sentences --------------------------------------------------------------------------------------------------

    def sentences(self, words: str) -> None:
        """Every rule takes what it knows out of the text; no number may be left."""
        rest = words
        for pattern, rule in _SENTENCES:
            for match in re.finditer(pattern, rest):
                rule(self, match)
            rest = re.sub(pattern, " ", rest)
        born = self.facts.nodes.get(self.node)
        quiet = re.sub(r"n\d+|(?<=depth )\d+|\d+ levels up|▁?\S*\d+\S*,? (?=levels)", " ", rest)
        if born is not None and self.plain(rest):
            self.expect(not re.search(r"(?<![\w▁])[.\d]+\d(?![\w▁])", quiet), f"a number nobody checked: {rest!r}")

    def plain(self, rest: str) -> bool:
        """Token texts with digits in them are no numbers of ours."""
        shown = [n.text for n in self.facts.nodes.values()] + [
            self.facts.closing.text or "" if self.facts.closing else ""
        ]
        return not any(re.search(r"\d", text) for text in shown)

    def thr(self, text: str, message: str) -> None:
        verdict = self.facts.verdicts[self.node]
        assert verdict.thr is not None, message
        self.expect(percent_as(text, verdict.thr), f"{message}: {text}", verdict.thr)

    def compared(self, u: str, sign: str, message: str, than: str | None = None) -> None:
        """`u .9 is not below it`, `u .901 is not below .9`: seen to be so."""
        verdict = self.facts.verdicts[self.node]
        self.number(u, verdict.u, message)
        self.expect((verdict.u < verdict.thr) == (sign == ""), message, (verdict.u, verdict.thr))
        if than is not None:
            self.number(than, verdict.thr, message)
            self.expect((float(u) < float(than)) == (sign == ""), f"false as printed: {message}")

    def failed(self, text: str | None, message: str) -> None:
        """`its 2 siblings failed`."""
        count = len(self.facts.earlier(self.node))
        named = 0 if not text else 1 if "sibling failed" in text else int(re.findall(r"\d+", text)[0])
        self.expect(named == count, message, count)

    def mass(self) -> tuple[float | None, float]:
        """What a test compared with q."""
        left = self.facts.left(self.node)
        return (self.facts.p(self.node), _SIX) if left is None else left

    def log_r(self, text: str, message: str, node: int | None = None) -> None:
        log = self.facts.log_r(self.node if node is None else node)
        slack = _SIX * max(1.0, abs(log)) if log > -math.inf else 0.0
        self.number(text, math.exp(log) if log < 700 else math.inf, message, slack)


def _p_row(panel: Panel, row: Any) -> None:
    f = panel.facts
    if f.temperature == 0:
        listed = f.listed(panel.node)
        if listed is not None:
            panel.number(row.value, listed, "p at T 1")
        else:
            least = min(linear(v.top[-1][1]) or 0.0 for i in f.place(panel.node) if (v := f.verdicts.get(i)) and v.top)
            panel.expect(row.value.startswith("<"), row.value)
            panel.number(row.value.lstrip("<"), least, "p below")
        return
    p = f.p(panel.node)
    slack = 1e-4 if f.old and f.listed(panel.node) is None else _SIX  # by way of a joint ratio
    panel.number(row.value, p, "p", slack)


def _ratio_row(panel: Panel, row: Any) -> None:
    p, q = panel.facts.p(panel.node), panel.facts.q(panel.node)
    if p is not None and q:
        panel.number(row.value, p / q, "p/q", 2 * _SIX)


def _left_row(panel: Panel, row: Any) -> None:
    left = panel.facts.left(panel.node)
    if left is None and panel.facts.verdicts[panel.node].kind == "draw":
        return
    panel.number(row.value, None if left is None else left[0], "R", 0.0 if left is None else left[1])
    if count := re.search(r"after (\d+) rejected sibling", row.note):
        panel.expect(int(count[1]) == len(panel.facts.earlier(panel.node)), row.note)
    panel.expect(bool(count) != panel.facts.backward, row.note)


def _left_ratio_row(panel: Panel, row: Any) -> None:
    left, q = panel.facts.left(panel.node), panel.facts.q(panel.node)
    panel.number(row.value, None if left is None or not q else left[0] / q, "R/q", 2 * _SIX)


def _q_row(panel: Panel, row: Any) -> None:
    panel.number(row.value, panel.facts.q(panel.node), "q", _SIX)


def _path_row(panel: Panel, row: Any) -> None:
    """The chance of the whole path, which is on record, as its tokens may have been offered by several paths."""
    node = panel.facts.nodes[panel.node]
    panel.number(row.value, math.exp(min(0.0, float(node.src["cum"]))), "path chance", 1e-9)
    above = panel.facts.nodes.get(node.parent) if node.parent is not None else None
    if above is not None and "cum" in above.src and not node.src.get("merged"):
        panel.expect(node.src["cum"] <= above.src["cum"] + 1e-6, "a path is likelier than its beginning", row.value)


def _conf_row(panel: Panel, row: Any) -> None:
    panel.number(row.value, linear(panel.facts.nodes[panel.node].log_conf), "draft", _SIX)


def _prefix_row(panel: Panel, row: Any) -> None:
    panel.log_r(row.value, "r")


def _capped_row(panel: Panel, row: Any) -> None:
    f = panel.facts
    log = f.log_c(panel.node)
    panel.number(row.value, math.exp(log), "c", _SIX * max(1.0, abs(log) if log > -math.inf else 1.0))
    panel.expect(first_scan(f, panel.node), "c of a candidate that had another row")


def first_scan(f: Facts, node: int) -> bool:
    """Whether only nodes of the same path were tested before: rows and weight are the plain ones."""
    verdict = f.verdicts[node]
    if verdict.implied:
        return True
    before = [v.node for v in f.tests if verdict.order is not None and (v.order or 0) < verdict.order]
    return all(node in f.path(i) for i in before) and all(
        i in f.path(j) or j in f.path(i) for i in before for j in before
    )


def _test_of(panel: Panel) -> ev.Verify:
    return panel.facts.twin_test(panel.node) or panel.facts.verdicts[panel.node]


def _thr_row(panel: Panel, row: Any) -> None:
    panel.number(row.value, _test_of(panel).thr, "keep")


def _u_row(panel: Panel, row: Any) -> None:
    verdict = _test_of(panel)
    assert verdict.u is not None
    panel.number(row.value, verdict.u, "u")
    if verdict.kind == "draw":
        inside = verdict.interval is not None and verdict.interval[0] <= verdict.u < verdict.interval[1]
        panel.expect(row.note.startswith("falls in") == inside, row.note)
        if verdict.interval is not None and verdict.interval[0] < verdict.interval[1]:
            panel.span(row.note.removeprefix("falls in ").removeprefix("not in "), verdict.interval, row.note)
        else:
            panel.expect(row.note == "nothing to fall in", row.note, verdict.interval)
        return
    sign, thr = row.note.split()
    panel.expect(sign == ("<" if verdict.u < (verdict.thr or 0) else "≥"), row.note, (verdict.u, verdict.thr))
    panel.number(thr, verdict.thr, row.note)
    panel.expect((sign == "<") == (float(row.value) < float(thr)), f"false as printed: {row.value} {row.note}")
    judged = (panel.facts.twin_test(panel.node) and panel.node) or panel.facts.judged(panel.node)
    key = panel.facts.key(panel.node if judged is None else judged)
    panel.expect(verdict.u == key, "u is of another node than the one that is said to be judged", key)


def _judged_row(panel: Panel, row: Any) -> None:
    judged = panel.facts.judged(panel.node)
    panel.expect(row.value == ("here" if judged is None else f"n{judged}"), f"judged {row.value}", judged)
    if judged is None:
        test = panel.facts.twin_test(panel.node)
        panel.expect(test is not None and row.note.endswith(f"twin n{test.node}"), row.note)


_ROWS: dict[str, Callable[[Panel, Any], None]] = {
    "q  draft": _q_row,
    "draft": _conf_row,
    "p  target": _p_row,
    "p/q": _ratio_row,
    "R  residual": _left_row,
    "R/q": _left_ratio_row,
    "r  prefix": _prefix_row,
    "c  capped": _capped_row,
    "keep": _thr_row,
    "h": _thr_row,
    "u": _u_row,
    "judged": _judged_row,
    "drafted": lambda panel, row: None,
    "path chance": _path_row,
    "margin": lambda panel, row: panel.expect(
        abs(float(row.value.replace(",", "")) - (panel.facts.verdicts[panel.node].margin or 0)) <= 0.51, row.value
    ),
}

# The sentences ------------------------------------------------------------------------------------------------------

_P = r"([<>]?[\d.]+ %)"
_AFTER = r"(its sibling failed|its \d+ siblings failed)"


def _too_sure(panel: Panel, match: re.Match[str]) -> None:
    mass, slack = panel.mass()
    q = panel.facts.q(panel.node)
    panel.failed(match["after"], match[0])
    if match["times"]:
        panel.expect(bool(mass and q) and printed_as(match["times"], q / mass, 2 * slack), match[0], (q, mass))
    if match["q"]:
        panel.number(match["q"], q, match[0], _SIX)
        panel.number(match["p"], mass, match[0], slack)


def _wants(panel: Panel, match: re.Match[str]) -> None:
    panel.failed(match["after"], match[0])
    if match["p"]:
        panel.number(match["p"], panel.facts.p(panel.node), match[0], _SIX)
        panel.number(match["q"], panel.facts.q(panel.node), match[0], _SIX)
    panel.expect(panel.facts.verdicts[panel.node].thr == 1, match[0])


def _named(panel: Panel, match: re.Match[str]) -> None:
    panel.failed(match["after"], match[0])
    panel.thr(match["chance"], match[0])
    mass, slack = panel.mass()
    panel.expect(mass is not None and percent_as(match["chance"], mass, slack), match[0], mass)
    panel.compared(match["u"], match["sign"] or "", match[0], match["than"])


def _falls(panel: Panel, match: re.Match[str]) -> None:
    verdict, closing = panel.facts.verdicts[panel.node], panel.facts.closing
    panel.number(match["u"], verdict.u, match[0])
    takers = [v for i in panel.facts.place(panel.node) if (v := panel.facts.verdicts.get(i)) and v.status == "accepted"]
    held = takers[0].interval if takers else closing.interval if closing else None
    panel.span(match["held"], held, match[0])
    panel.expect(held is not None and verdict.u is not None and held[0] <= verdict.u < held[1], match[0], held)


def _zero_p(panel: Panel, match: re.Match[str]) -> None:
    panel.expect(panel.facts.p(panel.node) == 0, match[0], panel.facts.p(panel.node))


def _zero_left(panel: Panel, match: re.Match[str]) -> None:
    left = panel.facts.left(panel.node)
    panel.expect(left is not None and left[0] == 0, match[0], left)
    if "p" in match.groupdict() and match["p"]:
        panel.number(match["p"], panel.facts.p(panel.node), match[0], _SIX)


def _zero_chain(panel: Panel, match: re.Match[str]) -> None:
    """ "impossible under the target": some token up to here has p = 0."""
    ps = [panel.facts.p(i) for i in panel.facts.path(panel.node)]
    panel.expect(0 in ps, match[0], ps)


def _survives(panel: Panel, match: re.Match[str]) -> None:
    panel.thr(match[1], match[0])


def _zero_thr(panel: Panel, match: re.Match[str]) -> None:
    panel.expect(panel.facts.verdicts[panel.node].thr == 0, match[0], panel.facts.verdicts[panel.node].thr)


def _sure_thr(panel: Panel, match: re.Match[str]) -> None:
    panel.expect(panel.facts.verdicts[panel.node].thr == 1, match[0], panel.facts.verdicts[panel.node].thr)
    panel.log_r(match["r"], match[0])


def _weighed(panel: Panel, match: re.Match[str]) -> None:
    """The prefix, its weight, the two masses of its branch and the keep chance they make."""
    f, chain, thr = panel.facts, panel.facts.chains.get(panel.node), panel.facts.verdicts[panel.node].thr
    words = match[0]
    panel.log_r(match["r"], words)
    panel.number(match["c"], math.exp(f.log_c(panel.node)), words, 1e-4)
    if match["peak"]:
        panel.number(match["peak"], math.exp(f.log_r(panel.node) - f.log_c(panel.node)), words, 1e-4)
        top = f.path(panel.node)[int(match["at"]) - 1]
        panel.log_r(match["peak"], words, top)
    if match["none"]:
        panel.expect(chain is not None and chain.d_pq == 0 and thr == 0, words, thr)
        return
    panel.expect(chain is not None, words)
    if chain is not None:
        panel.number(match["plus"], chain.d_pq, words)
        panel.number(match["minus"], chain.d_qp, words)
        panel.number(match["keep"], thr, words)
        panel.expect(abs((chain.d_pq or 0) / (chain.d_qp or 1) - (thr or 0)) <= 1e-4 * (thr or 0), words, thr)


def _last(panel: Panel, match: re.Match[str]) -> None:
    panel.number(match["c"], panel.facts.verdicts[panel.node].thr, match[0])
    panel.number(match["c"], math.exp(panel.facts.log_c(panel.node)), match[0], 1e-4)
    if match["peak"]:
        panel.log_r(match["peak"], match[0], panel.facts.path(panel.node)[int(match["at"]) - 1])


def _uncapped(panel: Panel, match: re.Match[str]) -> None:
    panel.number(match["r"], panel.facts.verdicts[panel.node].thr, match[0])
    if "c" in match.groupdict():
        panel.number(match["c"], math.exp(panel.facts.log_c(panel.node)), match[0], 1e-4)


def _naive(panel: Panel, match: re.Match[str]) -> None:
    chain, thr = panel.facts.chains[panel.node], panel.facts.verdicts[panel.node].thr
    panel.log_r(match["r"], match[0])
    panel.number(match["plus"], chain.dhat_pq, match[0])
    panel.number(match["minus"], chain.dhat_qp, match[0])
    panel.number(match["keep"], thr, match[0])


def _draw_end(panel: Panel, match: re.Match[str]) -> None:
    panel.compared(match["u"], match["sign"] or "", match[0], None if match["than"] == "it" else match["than"])


def _alone(panel: Panel, match: re.Match[str]) -> None:
    verdict = panel.facts.verdicts[panel.node]
    panel.number(match["u"], verdict.u, match[0])
    panel.number(match["h"], verdict.thr, match[0])
    panel.expect((verdict.u or 0) >= (verdict.thr or 0), match[0])


def _slack(panel: Panel, match: re.Match[str]) -> None:
    p, q = panel.facts.p(panel.node), panel.facts.q(panel.node)
    verdict = panel.facts.verdicts[panel.node]
    assert p is not None
    panel.expect((q is not None) == (match["name"] == "p/q"), match[0], q)
    ratio = p if q is None else p / q
    panel.number(match["ratio"], min(1.0, ratio), match[0], 2 * _SIX)
    panel.number(match["thr"], verdict.thr, match[0])
    panel.expect((verdict.u < min(1.0, ratio)) == (match["would"] == "would"), match[0])


def _twin(panel: Panel, match: re.Match[str]) -> None:
    panel.expect(panel.facts.judged(panel.node) == int(match[1]), match[0], panel.facts.judged(panel.node))


def _here(panel: Panel, match: re.Match[str]) -> None:
    test = panel.facts.twin_test(panel.node)
    panel.expect(test is not None, match[0])
    if test is not None:
        panel.number(match["u"], test.u, match[0])
        panel.number(match["h"], test.thr, match[0])
        panel.expect((test.u < test.thr) == (not match["sign"]), match[0])
        panel.expect(test.node == int(match["twin"]), match[0], test.node)


def _odds(panel: Panel, match: re.Match[str]) -> None:
    cum = panel.facts.nodes[panel.node].src.get("cum")
    panel.number(match[1], math.exp(min(0.0, cum)), match[0])


_U = rf"u (?P<u>{NUMBER})"
_PEAK = rf"(?P<peak>{NUMBER}) ?\(?,? ?\(?position (?P<at>\d+)\)"
_MASSES = (
    rf"(?:Its branch lacks (?P<plus>{NUMBER}) of target mass and has (?P<minus>{NUMBER}) too much draft mass: keep "
    rf"chance {NUMBER}/{NUMBER} = (?P<keep>{NUMBER})\.|(?P<none>Its branch lacks no target mass))"
)
_SENTENCES: list[tuple[str, Callable[[Panel, re.Match[str]], None]]] = [
    (r"Its twin n(\d+) spells the same text, and is the node that was judged\.", _twin),
    (
        rf"Its text was judged here: {_U} is (?P<sign>not )?below (?P<h>{NUMBER})\. The text goes on from its twin n(?P<twin>\d+)",
        _here,
    ),
    (
        rf"The draft only names .+?; the target gives it (?P<after>)(?P<chance>{_P}), and that is its chance to stay\. {_U} is (?P<sign>not )?below (?P<than>{NUMBER})",
        _named,
    ),
    (
        rf"After (?P<after>{_AFTER}) the target has (?P<chance>{_P}) left for .+?; that is its chance to stay\. {_U} is (?P<sign>not )?below (?P<than>{NUMBER})",
        _named,
    ),
    (
        rf"The draft was (?:slightly too sure|(?P<times>{NUMBER})× too sure|too sure)(?: of what is left after (?P<after>{_AFTER}))?(?:: (?P<q>{NUMBER}) against the target's (?P<p>{NUMBER}))?\.",
        _too_sure,
    ),
    (
        rf"(?:The target|What the target has left after (?P<after>{_AFTER})) wants .+? at least as much as the draft did(?: \(p (?P<p>{NUMBER}) ≥ q (?P<q>{NUMBER})\))?",
        _wants,
    ),
    (rf"The target drew .+? \({_U} falls in (?P<held>{STRETCH})\)", _falls),
    (r"The target gives .+? no chance here", _zero_p),
    (r"has no chance here at all", _zero_p),
    (rf"Nothing of .+? is left in the target's row after {_AFTER}", _zero_left),
    (rf"Earlier candidates left nothing of .+? \(p (?P<p>{NUMBER})\) in the target's row", _zero_left),
    (r"A token at or before .+? is impossible under the target", _zero_chain),
    (r"No draw can keep the prefix that ends in .+?(?=\. )", _zero_thr),
    (
        rf"(?P<name>p/q|p) is (?P<ratio>{NUMBER}), and slack makes that a keep chance of (?P<thr>{NUMBER}) \(not lossless: without slack it (?P<would>would not|would) be kept\)",
        _slack,
    ),
    (rf"[Aa]ccept probability {_P}", _survives),
    (
        rf"(?:has the (?:joint )?ratio (?P<r>{NUMBER}), (?:the target wants it at least as much as the draft did|at its running maximum|not below 1): kept for certain)",
        _sure_thr,
    ),
    (rf"is the whole draft and its ratio is at its maximum, (?P<r>{NUMBER}): kept for certain", _sure_thr),
    (
        rf"(?:The prefix that ends in .+? has the joint ratio (?P<r>{NUMBER}), so it carries weight (?P<c>{NUMBER})\. (?P<peak>)(?P<at>)){_MASSES}",
        _weighed,
    ),
    (
        rf"The ratio peaked at (?P<peak>{NUMBER}) \(position (?P<at>\d+)\) and is now (?P<r>{NUMBER}): weight (?P<c>{NUMBER})\. {_MASSES}",
        _weighed,
    ),
    (
        rf"Last position: the keep chance is the capped ratio, (?P<c>{NUMBER})(?: \(it peaked at (?P<peak>{NUMBER}), position (?P<at>\d+)\))?",
        _last,
    ),
    (rf"Last position: the keep chance is the joint ratio (?P<r>{NUMBER}), here the same", _uncapped),
    (
        rf"Last position: this rule takes the uncapped ratio (?P<r>{NUMBER}) where a lossless one takes c (?P<c>{NUMBER})",
        _uncapped,
    ),
    (rf"Last position: the keep chance is the uncapped joint ratio, (?P<r>{NUMBER})", _uncapped),
    (
        rf"has the joint ratio (?P<r>{NUMBER}); its branch lacks (?P<plus>{NUMBER}) of target mass and has (?P<minus>{NUMBER}) too much draft mass: keep chance (?P<keep>{NUMBER})",
        _naive,
    ),
    (rf"Alone it would have failed: (?P<u>{NUMBER}) ≥ (?P<h>{NUMBER})", _alone),
    (rf"{_U} is (?P<sign>not )?below (?P<than>it|{NUMBER})", _draw_end),
    (rf"The draft gave its path ({NUMBER})", _odds),
    (
        r"so \d+ carried rounds follow|node budget \(\d+\)|Drafted on branch \d+|the test at depth \d+ passed",
        lambda panel, message: None,
    ),
    (r"It comes from .*", lambda panel, message: None),  # of the drafter's own records: tests/view/test_rank_words.py
]


def _closing(why: Any, facts: Facts, out: list[str]) -> None:
    """The closing token: its rows, its sentence, and the row that it was drawn from."""
    panel, closing = Panel(why, facts, -2, out), facts.closing
    assert closing is not None
    p = linear(closing.logp)
    share = next((entry[4] for entry in closing.row or [] if entry[0] == closing.token), None)
    for row in why.rows:
        panel.number(row.value, {"p  target": p, "u": closing.u}[row.label], row.label, _SIX)
        if row.label == "u" and row.note:
            panel.span(row.note, closing.interval, row.note)
    for pattern, value in ((rf"with chance {_P}", p), (rf", which had {_P} of that", share)):
        if match := re.search(pattern, why.words):
            panel.expect(value is not None and percent_as(match[1], value, _SIX), match[0], value)
    if match := re.search(rf"\(u ({NUMBER}) falls in ({STRETCH})\)", why.words):
        panel.number(match[1], closing.u, match[0])
        panel.span(match[2], closing.interval, match[0])
    if why.residual is None or facts.temperature == 0:
        return
    mass = re.search(rf"(?:mass|not drafted:) ({NUMBER})$", why.residual.title)
    if mass:
        panel.number(mass[1], closing.mass, why.residual.title)
        several = len({i for i in facts.nodes if i in facts.verdicts and facts.verdicts[i].logq is not None}) > 1
        formula = "c·p − q" in why.residual.title and facts.header.verifier in ("multi_hsd", "multi_traversal")
        panel.expect(not (several and formula and len(facts.place(min(facts.nodes))) > 1), why.residual.title)
    recorded = sorted((entry[4] for entry in closing.row or []), reverse=True)
    for entry, value in zip(why.residual.entries[:5], recorded, strict=False):
        panel.number(entry.text, value if not entry.drawn or share is None else share, why.residual.title)


def complaints(events: list[Any], panel: Callable[[int, int], Any]) -> list[str]:
    """Of every panel of a run: what does not follow from the record. `panel(index, node)` is the product's."""
    out: list[str] = []
    for index, facts in enumerate(rounds(events)):
        for node in facts.nodes:
            why = panel(index, node)
            assert why.node == node
            Panel(why, facts, node, out).check()
        if facts.closing is not None and facts.closing.kind != "none":
            _closing(panel(index, -2), facts, out)
    return out
