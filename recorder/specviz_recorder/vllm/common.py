"""What both model runners of vLLM have in common: the card, requests that come and go, and wrapping a function."""

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from specviz_recorder.plugin import texts_of
from specviz_recorder.records import RunCard, ServedRequest
from specviz_recorder.sink import Sink
from specviz_recorder.switch import Switch

Bound = dict[str, Any]  # arguments of a call by name


def rule_of(settings: Any) -> str:
    """The rule that a `SpeculativeConfig` stands for."""
    if settings.rejection_sample_method == "synthetic":
        return "coin"
    if settings.rejection_sample_method in ("block", "fly"):
        return str(settings.rejection_sample_method)
    return "p/q" if settings.draft_sample_method == "probabilistic" else "one-hot"


def card_of(config: Any) -> RunCard:
    """Of a `VllmConfig` that speculates."""
    settings, model = config.speculative_config, config.model_config
    return RunCard(
        engine="vLLM",
        version=import_module("vllm").__version__,
        rule=rule_of(settings),
        setting=f"rejection_sample_method {settings.rejection_sample_method}, "
        f"draft_sample_method {settings.draft_sample_method}",
        method=settings.method or "draft",
        target=model.model,
        draft=settings.model if settings.model != settings.method else None,
        text=texts_of(model.tokenizer or model.model),
    )


def announce(sink: Sink, scheduled: Any) -> None:
    """Requests that a `SchedulerOutput` begins, and those that it ends."""
    if scheduled.finished_req_ids:
        sink.finish(list(scheduled.finished_req_ids))
    for new in scheduled.scheduled_new_reqs:
        settings = new.sampling_params
        if settings is None:  # it pools
            continue
        stops = set() if settings.ignore_eos else set(settings.all_stop_token_ids)
        stops |= set(settings.stop_token_ids or ())
        sink.begin(
            ServedRequest(
                new.req_id,
                list(new.prompt_token_ids or []),
                settings.temperature,
                settings.max_tokens,
                frozenset(stops),
            )
        )


def wrapped(owner: Any, name: str, switch: Switch, before: Any = None, after: Any = None) -> None:
    """Put hooks around a function of a module or class: `before(arguments)`, `after(arguments, result, state)` where
    state is what `before` gave. The function gets and returns what it would without them."""
    original: Callable[..., Any] = getattr(owner, name)
    if getattr(original, "_specviz_recorder", False):
        return  # a plugin may be loaded again
    signature = inspect.signature(original)

    @functools.wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        if not switch.on:
            return original(*args, **kwargs)

        def bind() -> Bound:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return bound.arguments

        arguments = switch.guarded(bind)
        state = switch.guarded(lambda: before(arguments)) if before is not None else None
        result = original(*args, **kwargs)
        if after is not None:
            switch.guarded(lambda: after(arguments, result, state))
        return result

    recorded._specviz_recorder = True  # type: ignore[attr-defined]
    setattr(owner, name, recorded)
