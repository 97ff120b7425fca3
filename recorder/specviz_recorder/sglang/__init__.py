"""The plugin of SGLang (`sglang.srt.plugins`): hooks by its own registry, in every process that decodes."""

from importlib import import_module
from typing import Any

from specviz_recorder.plugin import fits, texts_of, wanted
from specviz_recorder.records import RunCard
from specviz_recorder.sglang.block import BlockHooks
from specviz_recorder.sglang.hooks import registered
from specviz_recorder.sglang.tree import TreeHooks, made_up
from specviz_recorder.signatures import found_at, known_signatures
from specviz_recorder.sink import Sink
from specviz_recorder.switch import Switch

_loaded: list[Sink] = []  # of this process


def load() -> None:
    """Register the hooks, if the user asked for a recording. The engine applies them when all plugins have."""
    path = wanted()
    if path is None or _loaded or not fits("sglang", list(known_signatures("sglang").functions)):
        return
    switch = Switch()
    _loaded.append(Sink(path, card, switch))
    tree = TreeHooks(_loaded[0], switch)
    registered([*tree.hooks(), *BlockHooks(_loaded[0], switch, tree).hooks()])


def rule_of(settings: Any, platform: Any) -> str:
    """The rule that settings of speculation stand for; `platform`: the module that says where it runs."""
    if made_up():
        return "coin"
    by_ratio = settings.speculative_use_rejection_sampling
    if platform._is_cpu or platform._is_xpu or (platform._is_hip and not by_ratio):
        return "argmax"
    if by_ratio:
        return "block" if settings.speculative_use_block_verification else "p/q"
    limits = settings.speculative_accept_threshold_single, settings.speculative_accept_threshold_acc
    return "target only" if min(limits) >= 1 else "thresholds"


def card() -> RunCard:
    """Of the engine in this process."""
    sglang = import_module("sglang")
    settings, server_args = (
        found_at(f"sglang.srt.runtime_context:{name}")() for name in ("get_spec", "get_server_args")
    )
    rule = rule_of(settings, import_module("sglang.srt.speculative.eagle_utils"))
    return RunCard(
        engine="SGLang",
        version=sglang.__version__,
        rule=rule,
        setting=f"threshold single {settings.speculative_accept_threshold_single}, "
        f"threshold acc {settings.speculative_accept_threshold_acc}, "
        f"rejection sampling {'on' if settings.speculative_use_rejection_sampling else 'off'}",
        method=str(server_args.speculative_algorithm or "draft").lower(),
        target=server_args.model_path,
        draft=server_args.speculative_draft_model_path,
        text=texts_of(server_args.tokenizer_path or server_args.model_path),
    )
