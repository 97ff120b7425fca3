"""Registering hooks with SGLang, and the requests of a batch."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from specviz_recorder.records import ServedRequest
from specviz_recorder.signatures import found_at
from specviz_recorder.sink import Sink
from specviz_recorder.switch import Switch

Bound = dict[str, Any]  # arguments of a call by name


class EngineHook(NamedTuple):
    """`kind`: a name of SGLang's `HookType`."""

    place: str
    kind: str
    hook: Callable[..., Any]


def registered(hooks: list[EngineHook]) -> None:
    """Hand hooks to the engine's registry."""
    kinds = found_at("sglang.srt.plugins.hook_registry:HookType")
    register = found_at("sglang.srt.plugins.hook_registry:HookRegistry").register
    for place, kind, hook in hooks:
        register(place.replace(":", "."), hook, kinds[kind])


def after(place: str, switch: Switch, body: Callable[[Bound, Any], None]) -> EngineHook:
    """A hook behind a function: `body(arguments, result)`. The result stays what it is."""
    signature = inspect.signature(found_at(place))

    def hook(result: Any, *args: Any, **kwargs: Any) -> None:
        switch.guarded(lambda: body(_bound(signature, args, kwargs), result))

    return EngineHook(place, "AFTER", hook)


def around(
    place: str, switch: Switch, before: Callable[[Bound], None], behind: Callable[[Bound, Any], None]
) -> EngineHook:
    """A hook before and behind a function, which gets and returns what it would without it."""
    signature = inspect.signature(found_at(place))

    def hook(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        switch.guarded(lambda: before(_bound(signature, args, kwargs)))
        result = original(*args, **kwargs)
        switch.guarded(lambda: behind(_bound(signature, args, kwargs), result))
        return result

    return EngineHook(place, "AROUND", hook)


def _bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


class Served:
    """The requests that are decoded. One that is not in a batch any more has ended, or begins again later."""

    def __init__(self, sink: Sink) -> None:
        self._sink, self._ids = sink, list[str]()

    def of(self, batch: Any) -> list[str] | None:
        """Ids of the requests of a batch, told where they begin and end; None on ranks that sample the same tokens."""
        if found_at("sglang.srt.runtime_context:get_parallel")().attn_tp_rank != 0:
            return None
        ids = [request.rid for request in batch.reqs]
        if gone := [request_id for request_id in self._ids if request_id not in ids]:
            self._sink.finish(gone)
        for request in batch.reqs:
            if request.rid not in self._ids:
                self._sink.begin(_request(request))
        self._ids = ids
        return ids


def _request(request: Any) -> ServedRequest:
    settings, spent = request.sampling_params, len(request.output_ids)
    stops = set() if settings.ignore_eos else set(request.eos_token_ids or ())
    return ServedRequest(
        request.rid,
        [*request.origin_input_ids, *request.output_ids],
        0.0 if settings.top_k == 1 else settings.temperature,  # the engine writes temperature 0 so
        None if settings.max_new_tokens is None else settings.max_new_tokens - spent,
        frozenset(stops | set(settings.stop_token_ids or ())),
    )
