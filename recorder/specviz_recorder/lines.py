"""`TraceLines`: the lines of a trace (schema specviz.trace 1.2), request after request."""

import hashlib
import math
import uuid
from datetime import datetime, timezone
from typing import Any

import msgspec

from specviz_recorder.records import DraftToken, RunCard, ServedRound
from specviz_recorder.rules import RULES, ServedRule

_ZERO = -1e9  # the log of probability 0: JSON has no -inf
_COUNTS = ("n_drafted", "n_tested", "n_accepted", "n_emitted")


class TraceLines:
    """Turns a card, requests and their rounds into lines. They come in order; a request's rounds stand together."""

    def __init__(self, card: RunCard, temperature: float | None, t: int) -> None:
        self.rule: ServedRule = RULES[card.rule]
        self._name, self._text = card.rule, card.text
        self._lines: list[bytes] = []
        self._digest = hashlib.sha256()
        self._count, self._t, self._query, self._round, self._node, self._n = 0, t, -1, 0, 0, 0
        self._temperature = temperature
        self._totals = dict.fromkeys(("n_queries", "n_rounds", *_COUNTS), 0)
        self._add("header", **_header(card, self.rule, temperature))

    def taken(self) -> bytes:
        """The lines since the last call."""
        lines, self._lines = self._lines, []
        return b"".join(lines)

    def request(self, prompt: list[int], temperature: float | None, t: int) -> None:
        """The next request begins, behind `prompt`; -1 stands for a token that nobody knows."""
        ids = prompt or [-1]
        self._query, self._round, self._node, self._n = self._query + 1, 0, 0, len(ids)
        self._t = max(self._t, t)
        text = "".join(map(self._shown, ids))
        self._add("prefill", prompt=ids, text=text, n_prompt=len(ids), seed=0, dur_ns=0)
        self._totals["n_queries"] += 1
        if temperature is not None and temperature != self._temperature:
            old, self._temperature = self._temperature, temperature
            asked = {"requested_r": 1, "applied_r": 1, "changes_text": True}
            self._add("knob", name="temperature", old=old, new=temperature, **asked)

    def round(self, done: ServedRound, root: int, finish: str | None) -> None:
        """A round of the request in hand, behind the token `root`. `finish`: why the text ends with it, if it does."""
        self._round += 1
        began = self._t
        self._add("round_start", n=self._n, root=root, knob_version=0)
        self._t = max(self._t, done.t)
        self._drafted(done.draft)
        closed = len(done.tokens) > len(done.path)
        n_tested, wrong = self._verified(done, closed)
        self._committed(done, closed, finish)
        for message in wrong:
            self._add("warn", code="rule_violated", message=message)
        counts = dict(zip(_COUNTS, (len(done.draft), n_tested, len(done.path), len(done.tokens)), strict=True))
        took = self._t - began if self._round > 1 else 0  # nothing says when the first one began
        self._add(
            "round_end",
            **counts,
            n_draft_calls=0,
            n_syncs=0,
            stage_ns={"other": took} if took else {},
            probe_ns=0,
            draft_end="full",
            walk_end=finish or ("rejected" if closed and len(done.path) < len(done.draft) else "leaf"),
            cut=not closed,
        )
        self._node += len(done.draft)
        for name, count in {**counts, "n_rounds": 1}.items():
            self._totals[name] += count

    def end(self) -> None:
        """The last line."""
        self._add("end", reason="done", totals=self._totals, n_lines=self._count, sha256=self._digest.hexdigest())

    # Records ---------------------------------------------------------------------------------------------------------

    def _drafted(self, draft: list[DraftToken]) -> None:
        depths: list[int] = []
        for index, token in enumerate(draft):
            depths.append(1 if token.parent < 0 else depths[token.parent] + 1)
            self._add(
                "node",
                node=self._node + index,
                parent=-1 if token.parent < 0 else self._node + token.parent,
                depth=depths[-1],
                pos=self._n - 1 + depths[-1],
                token=token.token,
                text=self._shown(token.token),
                logq=None if self.rule.point_mass else _log(token.q),
                log_conf=_log(token.q),
                mode=self.rule.mode,
            )

    def _verified(self, done: ServedRound, closed: bool) -> tuple[int, list[str]]:
        """Verdicts; how many drafted tokens were tested, and what the rule would have decided otherwise."""
        order, wrong = (
            0,
            [f"n{self._node + index}: the target gave it no number (p is not finite)" for index in _lost(done)],
        )
        for index, (token, status) in enumerate(zip(done.draft, verdicts(done, closed), strict=True)):
            threshold = token.threshold if token.threshold is not None else self.rule.threshold(token.p, token.q)
            tested = status != "untested"
            if (
                tested
                and token.u is not None
                and threshold is not None
                and (token.u < threshold) != (status == "accepted")
            ):
                wrong.append(
                    f"n{self._node + index} was {status} with u {token.u:.6g}, but {self._name} keeps a token if "
                    f"u < {threshold:.6g}"
                )
                threshold = None
            self._add(
                "verify",
                node=self._node + index,
                order=order if tested else None,
                kind="test" if self.rule.tests else "draw",
                logp=_log(token.p),
                logq=None if self.rule.point_mass else _log(token.q),
                thr=threshold,
                u=token.u,
                interval=token.interval,
                status=status,
                why=self._why(status, closed),
            )
            order += tested
        return order, wrong

    def _why(self, status: str, closed: bool) -> str:
        if status == "accepted":
            return "kept"
        if status == "rejected":
            return "u_above" if self.rule.tests else "not_drawn"
        return "prefix_rejected" if closed else "after_stop"

    def _committed(self, done: ServedRound, closed: bool, finish: str | None) -> None:
        kept = len(done.path)
        kind = ("recovered" if kept < len(done.draft) else "bonus") if closed else "none"
        texts = [self._shown(token) for token in done.tokens]
        self._add(
            "closing",
            node=self._node + done.path[-1] if done.path else -1,
            kind=kind,
            token=done.tokens[-1] if closed else None,
            text=texts[-1] if closed else None,
            u=None,
            logp=_log(done.p) if closed else None,
        )
        self._n += len(done.tokens)
        kinds = ["accepted"] * kept + [kind] * closed
        self._add("commit", tokens=done.tokens, texts=texts, kinds=kinds, n=self._n, finish=finish)

    def _shown(self, token: int) -> str:
        return self._text(token) if token >= 0 else ""

    def _add(self, kind: str, /, **fields: Any) -> None:
        line = {"ev": kind, "i": self._count, "t": self._t, "q": max(self._query, 0), "r": self._round, **fields}
        encoded = msgspec.json.encode(line) + b"\n"
        self._digest.update(encoded)
        self._lines.append(encoded)
        self._count += 1


def verdicts(done: ServedRound, closed: bool) -> list[str]:
    """What became of every drafted token: children of the last kept one lost if a token was drawn there; siblings
    before a kept one lost to it; whatever lies behind was not tested."""
    kept, stop = set(done.path), done.path[-1] if done.path else -1
    rivals = {done.draft[index].parent: index for index in done.path}
    statuses = []
    for index, token in enumerate(done.draft):
        if index in kept:
            statuses.append("accepted")
        elif token.parent == stop:
            statuses.append("rejected" if closed else "untested")
        else:
            statuses.append("rejected" if index < rivals.get(token.parent, -1) else "untested")
    return statuses


def _lost(done: ServedRound) -> list[int]:
    """Where the engine's own numbers are none, which is then said: p is left out."""
    lost = [index for index, token in enumerate(done.draft) if token.p is not None and not math.isfinite(token.p)]
    for index in lost:
        done.draft[index].p = None
    if done.p is not None and not math.isfinite(done.p):
        done.p = None
    return lost


def _log(prob: float | None) -> float | None:
    """Natural log with six digits, as specviz writes it."""
    if prob is None:
        return None
    return float(f"{math.log(prob):.6g}") if prob > 0 else _ZERO


def _header(card: RunCard, rule: ServedRule, temperature: float | None) -> dict[str, Any]:
    knobs = {} if temperature is None else {"temperature": temperature}
    outside = {
        "engine": card.engine,
        "version": card.version,
        "setting": card.setting,
        "how": rule.how,
        "promise": rule.promise,
        "known": "probabilities",
        "source": "own sampler",
        "chains": False,
    }
    named = {"target": card.target, "draft": card.draft}
    return {
        "schema": "specviz.trace",
        "v": (1, 2),
        "run": uuid.uuid4().hex[:12],
        "wall": datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),  # noqa: UP017 - Python 3.10
        "method": card.method,
        "drafter": card.method,
        "verifier": rule.verifier or card.rule,
        "lanes": "serial",
        "lossless": rule.promise == "same law",
        "keeps_tokens": False,  # its draws are not specviz's: what plain decoding would give is not known
        "models": {which: {"name": _named(name)} if name else None for which, name in named.items()},
        "knobs": knobs,
        "knob_specs": [],
        "sampling": knobs,
        "level": "summary",
        "outside": outside,
        "verifier_traits": rule.traits,
    }


def _named(model: str) -> str:
    """A name (`owner/model`) as it is, of a folder the last part: where it lies is nobody else's business."""
    is_folder = model.startswith(("/", ".", "~")) or model.count("/") > 1 or "\\" in model
    return model.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] if is_folder else model
