"""What `vllm bench serve` and SGLang's `bench_serving` save: totals of a benchmark as one object."""

from collections.abc import Mapping
from typing import Any

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind
from specviz.engines.texts.values import count, decoded, objects_with, real

_MOST = 64  # benchmarks of one text


class BenchmarkJson:
    """Every benchmark is a history of its own."""

    def __init__(self) -> None:
        self._histories: list[CountHistory] = []

    def take(self, line: str) -> bool | None:
        """One line."""
        value = decoded(line)
        taken = False
        if len(self._histories) >= _MOST:
            return False
        for report in objects_with(value, "spec_decode_num_drafts"):
            taken = self._vllm(report) or taken
        for report in objects_with(value, "accept_length"):
            taken = self._sglang(report) or taken
        return taken

    def _vllm(self, report: Mapping[str, Any]) -> bool:
        rounds = count(report["spec_decode_num_drafts"])
        if rounds is None:
            return False
        rates = report.get("spec_decode_per_position_acceptance_rates")
        shares = [real(rate) for rate in rates[:256]] if isinstance(rates, list) else []
        window = CountWindow(
            real(report.get("duration")),
            rounds,
            count(report.get("spec_decode_draft_tokens")),
            count(report.get("spec_decode_accepted_tokens")),
            count(report.get("total_output_tokens")),
            [round(min(1.0, share or 0.0) * rounds) for share in shares],
        )
        self._add("vLLM", report, window)
        return True

    def _sglang(self, report: Mapping[str, Any]) -> bool:
        length = real(report["accept_length"])
        if length is None or "output_throughput" not in report:
            return False
        n = count(report.get("total_output_tokens"))
        self._add("SGLang", report, CountWindow(real(report.get("duration")), n_generated=n, length=length))
        return True

    def _add(self, engine: str, report: Mapping[str, Any], window: CountWindow) -> None:
        n = count(report.get("completed"))
        history = CountHistory(engine, f"over a benchmark of {n} requests" if n else "over a benchmark")
        model = report.get("model_id")
        history.models += [model[:200]] if isinstance(model, str) and model else []
        for name in ("max_concurrency", "request_rate", "num_prompts"):
            if isinstance(report.get(name), int | float | str):
                history.settings[name.replace("_", " ")] = str(report[name])[:60]
        history.began = 0.0 if window.wall else None
        history.add(window)
        self._histories.append(history)

    def histories(self) -> list[CountHistory]:
        """One a benchmark."""
        return self._histories


KINDS = (LineKind("the JSON of a benchmark", ('"spec_decode_num_drafts"', '"accept_length"'), BenchmarkJson),)
