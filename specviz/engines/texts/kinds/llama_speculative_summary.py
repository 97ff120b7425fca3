"""What llama-speculative and llama-speculative-simple print at their end: `n_drafted = 912`, `n_accept = 313`, `decoded
371 tokens in 34.412 seconds` (`generated` in the first ones), and the times of draft and target."""

import re

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.numbers import count_after, unstamped

_DECODED = re.compile(r"(?:decoded|generated)\s+(\d+) tokens in\s+([\d.]+) seconds")
_EVAL = re.compile(r"\beval time =\s*([\d.]+) ms /\s*(\d+) (runs|tokens)")
_NAMES = ("n_draft", "n_predict", "n_drafted", "n_accept")
_SIGNS = ("n_draft ", "n_predict ", "n_drafted ", "n_accept ")
_BESIDE = ("decoded ", "generated ", "eval time =", "draft:", "target:")


class LlamaSpeculativeSummary:
    """One summary."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}
        self._seconds: float | None = None
        self._side = ""
        self._plain_ms: float | None = None  # of the target's passes over one row
        self._side_ms: dict[str, float] = {}

    def take(self, line: str) -> bool | None:
        """One line."""
        words = unstamped(line).strip()
        if words in ("draft:", "target:"):
            self._side = words[:-1]
            return bool(self._told)
        decoded = _DECODED.search(line)
        if decoded is not None:
            self._told["n_predict"], self._seconds = int(decoded[1]), float(decoded[2])
            return True
        evaluated = _EVAL.search(line) if self._side else None
        if evaluated is not None:
            if "prompt eval" not in line and int(evaluated[2]):
                self._side_ms[self._side] = float(evaluated[1])
                if self._side == "target":
                    self._plain_ms = float(evaluated[1]) / int(evaluated[2])
            return True
        for name in _NAMES:
            if words.startswith(f"{name} ") and (n := count_after(words, name)) is not None:
                self._told[name] = n
                return True
        return False

    def histories(self) -> list[CountHistory]:
        """One, with what a round took where times are told."""
        counts = self._told
        if "n_drafted" not in counts or "n_accept" not in counts:
            return []
        history = CountHistory("llama.cpp", "over the run")
        n = counts.get("n_predict")
        rounds = max(0, n - counts["n_accept"]) if n else None
        if "n_draft" in counts:
            history.settings["n draft"] = str(counts["n_draft"])
        history.began = 0.0 if self._seconds else None
        history.add(CountWindow(self._seconds, rounds, counts["n_drafted"], counts["n_accept"], n))
        if n and rounds and self._seconds and self._plain_ms:
            history.notes.append(_pays(n, rounds, self._seconds, self._plain_ms, self._side_ms.get("draft")))
        return [history]


def _pays(n: int, rounds: int, seconds: float, plain_ms: float, draft_ms: float | None) -> str:
    """What a round cost in plain tokens, and what it brought."""
    round_ms, brought = seconds * 1e3 / rounds, n / rounds
    drafting = "" if draft_ms is None else f", {draft_ms / rounds / plain_ms:.1f} of them drafting"
    times = brought * plain_ms / round_ms
    words = "does not pay" if times < 1 else "pays"
    return (
        f"a round took {round_ms:.0f} ms, as long as {round_ms / plain_ms:.1f} plain tokens of {plain_ms:.1f} ms"
        f"{drafting}, and brought {brought:.1f}: {times:.2f} times plain decoding, it {words}"
    )


KINDS = (LineKind("the summary of llama-speculative", _SIGNS, LlamaSpeculativeSummary, _BESIDE),)
