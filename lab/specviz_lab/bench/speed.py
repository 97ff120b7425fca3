"""One measurement of speeds, from settings to report.

Pairs of a known shape with random weights say what a round costs at a size that no embedded model has. They are made on
the fly, nothing is downloaded: text and acceptance mean nothing, times of the stages do, which depend on shapes alone.
Texts are split by the embedded tokenizer, whose ids are the first of the larger vocabulary.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import torch

from specviz.comparison import machine
from specviz.comparison.measured import fitting, machine_of, models_of
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.dtypes import pick_dtype
from specviz.engine.model.files.loading import Loaded, embedded, pick_device
from specviz.engine.model.pair import with_threads
from specviz.engine.run.local import Pair, load_pair
from specviz.engine.run.prepare import wants_chat
from specviz.errors import ModelError, SpecvizError
from specviz.events import ModelInfo
from specviz.sources.prompts import load_prompts, suited
from specviz.trace.private import named_parts, without_folders
from specviz_lab.bench.exit_costs import ExitCosts, costs_of_records, costs_of_splits
from specviz_lab.bench.lengths import best_lengths
from specviz_lab.bench.llama.arm import LlamaArm, LlamaServers
from specviz_lab.bench.measure import BenchArm, Measurement, MeasuringPlan, Tokens, measure, of_arm, probe_threads
from specviz_lab.bench.ours import OurArm
from specviz_lab.bench.peers import PeerArm, Peers
from specviz_lab.bench.results import PromptsUsed, Report, arm_result, bars_of, ratios_of
from specviz_lab.bench.settings import CLIMBERS, BenchSettings, Contestant
from specviz_lab.bench.statistics import check_equal

Tell = Callable[[str], None]
ROOM = 64  # tokens of context for drafts in flight


def bench(settings: BenchSettings, command: str, tell: Tell) -> Report:
    """Load, probe, measure, compare. Raises SpecvizError for what the user can mend, before anything is timed."""
    prompts = load_prompts(settings.prompts, settings.limit)
    tell("loading models")
    if settings.shape is not None:
        pair = shaped_pair(settings.shape, settings.device, settings.dtype)
    else:
        pair = load_pair(settings.target, settings.draft, settings.needs_draft, settings.device, settings.dtype)
    pair.runtime.begin()
    prompts = suited(prompts, wants_chat(pair.target, None))
    ids, before = [*fitting(prompts, pair, settings.max_new_tokens).values()], machine.load()
    context = max(map(len, ids)) + settings.max_new_tokens + ROOM
    peers = Peers(replace(settings, dtype=pair.target.info.dtype), context)
    servers = LlamaServers(settings, peers, pair.target.tokenizer)
    # The library's sampling draws from the global generator.
    with torch.random.fork_rng(), _quiet(), servers:
        settings, absent = _present(settings, peers, servers)
        for line in absent:
            tell(line)
        settings, arms, refused = _begun(settings, pair, peers, servers, ids[0])
        for line in refused:
            tell(line)
        absent += refused
        probed = _threads(settings, arms, ids, tell)
        pair = with_threads(pair)
        arms = [
            _arm(spec, settings, pair, peers, servers) if isinstance(arm, OurArm) else arm
            for arm, spec in zip(arms, settings.arms, strict=True)
        ]
        seconds = settings.minutes * 60 if settings.minutes else None
        measured = measure(arms, ids, MeasuringPlan(settings.max_new_tokens, settings.repeats, seconds), tell)
        _leave_out_clocks(arms, measured)
        names = [arm.name for arm in arms]
        same = check_equal(names, _references(settings, arms), measured.samples, ids, margin_of(pair))
    costs = _exit_costs(settings, arms, measured, ids, tell)
    lengths = best_lengths(arms, measured.splits, pair)
    results = [
        arm_result(name, of_arm(measured.samples, k), measured.splits[k], costs.get(name))
        for k, name in enumerate(names)
    ]
    ratios = ratios_of(settings.arms, measured.samples)
    # The bars are set for the embedded pair in float32 on a processor.
    own = settings.target is None and settings.draft is None and settings.shape is None
    whole = pair.target.adapter.device.type == "cpu" and not pair.target.adapter.backend.note
    applies = own and pair.target.info.dtype == "float32" and whole
    return Report(
        wall=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        machine=machine_of(pair, before),
        models=models_of(pair),
        settings={
            "methods": names,
            **{name: getattr(settings, name) for name in ("gamma", "max_new_tokens", "repeats", "temperature")},
            "dtype": pair.target.info.dtype,
            "threads": torch.get_num_threads(),
            "minutes": settings.minutes,
            "knobs": {kind: named_parts(knobs) for kind, knobs in settings.checked_knobs.items()},
        },
        thread_probe_ms=probed,
        prompts=PromptsUsed(
            source=prompts.source,
            sha256=prompts.sha256,
            n_found=prompts.n_found,
            n_used=len(ids),
            n_left_out=len(prompts.texts) - len(ids),
            mean_tokens=sum(map(len, ids)) / len(ids),
        ),
        arms=results,
        ratios=ratios,
        equality=same,
        bars=bars_of(ratios, applies),
        seconds=measured.seconds,
        cut=measured.cut,
        notes=[*_notes(settings, measured, ids, arms), *absent],
        lengths=lengths,
    )


def _present(settings: BenchSettings, peers: Peers, servers: LlamaServers) -> tuple[BenchSettings, list[str]]:
    """The settings without the arms that cannot run here, and a line for each. SpecvizError when none is left."""
    why = {arm.name: (servers if arm.served else peers).why_not(arm.kind) for arm in settings.arms}
    absent = [f"{name} was not measured: {reason}" for name, reason in why.items() if reason]
    left = tuple(arm for arm in settings.arms if not why.get(arm.name))
    if not left:
        raise SpecvizError(f"nothing is left to measure: {absent[0]}; name others with --methods")
    return replace(settings, arms=left), absent


def _begun(
    settings: BenchSettings, pair: Pair, peers: Peers, servers: LlamaServers, prompt: Tokens
) -> tuple[BenchSettings, list[BenchArm], list[str]]:
    """The arms, without those of ours that these models cannot be run by, and a line for each of those. SpecvizError
    when none is left."""
    arms, specs, refused = [], [], []
    for spec in settings.arms:
        arm = _arm(spec, settings, pair, peers, servers)
        try:
            if isinstance(arm, OurArm):
                arm.session(prompt, 1, 0)
        except ModelError as error:
            refused.append(f"{spec.name} was not measured: {without_folders(str(error))}")
            continue
        arms.append(arm)
        specs.append(spec)
    if not arms:
        raise SpecvizError(f"nothing is left to measure: {'; '.join(refused)}")
    return replace(settings, arms=tuple(specs)), arms, refused


def _arm(spec: Contestant, settings: BenchSettings, pair: Pair, peers: Peers, servers: LlamaServers) -> BenchArm:
    if spec.served:
        return LlamaArm(spec, settings, servers)
    return PeerArm(spec, settings, peers) if spec.peer else OurArm(spec, settings, pair)


def _leave_out_clocks(arms: Sequence[BenchArm], measured: Measurement) -> None:
    """The processor's time of this process says nothing of a server's."""
    for sample in measured.samples:
        if isinstance(arms[sample.arm], LlamaArm):
            sample.cpu_seconds = None


def _threads(
    settings: BenchSettings, arms: Sequence[BenchArm], ids: Sequence[Tokens], tell: Tell
) -> dict[int, float] | None:
    if settings.threads:
        torch.set_num_threads(settings.threads)
        return None
    tell("probing thread counts")
    # A server takes its threads when it starts, which it does with those that are found here.
    here = [(arm, spec) for arm, spec in zip(arms, settings.arms, strict=True) if not spec.served]
    if not here:  # nothing to probe by; more threads than free cores wait for each other at every product
        torch.set_num_threads(1)
        return None
    unwatched = [arm for arm, spec in here if spec.level is None]
    return probe_threads(unwatched or [arm for arm, _ in here], ids[0])


def _references(settings: BenchSettings, arms: Sequence[BenchArm]) -> list[str | None]:
    """The arm whose tokens each arm promises to write."""
    out: list[str | None] = []
    plain = next((arm.name for arm in settings.arms if arm.plain), None)
    for arm, spec in zip(arms, settings.arms, strict=True):
        same = spec.packed is None  # weights in fewer bits are another model
        keeps = (same and settings.temperature == 0) or (isinstance(arm, OurArm) and arm.keeps_tokens)
        out.append(spec.bare if spec.level and not keeps else plain if keeps else None)
    return out


def margin_of(pair: Pair) -> Callable[[Tokens], float]:
    """How far the target's two highest logits are apart after a text."""

    @torch.inference_mode()
    def margin(text: Tokens) -> float:
        adapter = pair.target.adapter
        logits = adapter.model(torch.tensor([text], device=adapter.device), use_cache=False).logits[0, -1]
        two = logits[: adapter.vocab].double().topk(2).values
        return float(two[0] - two[1])

    return margin


def _exit_costs(
    settings: BenchSettings, arms: Sequence[BenchArm], measured: Measurement, ids: Sequence[Tokens], tell: Tell
) -> dict[str, ExitCosts | None]:
    """Layer calls, cells and tests of every arm that runs the target alone, if any of them climbs it."""
    if not any(spec.kind in CLIMBERS for spec in settings.arms):
        return {}
    tell("counting layer calls")
    prompts = sorted({sample.prompt for sample in measured.samples})
    out: dict[str, ExitCosts | None] = {}
    for index, arm in enumerate(arms):
        if isinstance(arm, PeerArm):
            out[arm.name] = costs_of_splits(measured.splits[index])
        elif isinstance(arm, OurArm) and arm.level is None and not arm.method.needs_draft:
            runs = [arm.records(ids[prompt], settings.max_new_tokens, 0) for prompt in prompts]
            layer = arm.clock.layer if arm.clock is not None else None
            out[arm.name] = costs_of_records(runs, arm.pair.target.adapter.n_layers, layer)
    return out


def _notes(
    settings: BenchSettings, measured: Measurement, ids: Sequence[Tokens], arms: Sequence[BenchArm]
) -> list[str]:
    notes = ["every run writes exactly max_new_tokens tokens; end-of-text tokens are ignored by all arms"]
    peer = next((arm for arm in arms if isinstance(arm, PeerArm)), None)
    if peer is not None:
        notes.append(f"the library's loops run on copies of their own, attention {peer.attention}")
    if any(isinstance(arm, LlamaArm) for arm in arms):
        notes.append("llama.cpp: tokens/s by the wall clock of whole requests over loopback; rounds by its own timings")
        if settings.temperature > 0:
            notes.append(
                "llama.cpp keeps a drafted token that equals the target's own sample, drawn by its own generator"
            )
    n_seen = len({s.prompt for s in measured.samples})
    if measured.cut:
        done = len(measured.samples) / max(1, len(ids) * len(settings.arms))
        notes.append(f"the time was up: {n_seen} of {len(ids)} prompts, {math.floor(done * 10) / 10:g} repeats")
    if settings.shape is not None:
        notes.append("random weights: the times of the stages mean something, texts and acceptance do not")
    if settings.temperature > 0 and any(arm.kind == "chain" for arm in settings.arms):
        notes.append("sampled chains keep the law of the text, not its tokens, so no equality is promised for them")
    return notes


@contextmanager
def _quiet() -> Iterator[None]:
    """Hold the library's log lines back, which would stand between ours."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


VOCAB = 32768
# layers, width, inner width, heads, heads of keys and values; a half-billion target as Qwen2.5 has it
SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "0.5b": ((24, 896, 4864, 14, 2), (4, 448, 1216, 7, 1)),
    "tiny": ((2, 64, 128, 4, 2), (1, 32, 64, 2, 1)),
}


def shaped_pair(shape: str, device: str | None, dtype: str | None) -> Pair:
    """Target and draft model of that shape."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(embedded("target")), trust_remote_code=False)
    place = pick_device(device)
    target, draft = (
        _loaded(f"random/{shape}/{role}", size, tokenizer, place, pick_dtype(dtype, place))
        for role, size in zip(("target", "draft"), SIZES[shape], strict=True)
    )
    return Pair(target, draft)


def _loaded(name: str, size: tuple[int, ...], tokenizer: Any, device: torch.device, dtype: torch.dtype) -> Loaded:
    from transformers import LlamaConfig, LlamaForCausalLM

    layers, width, inner, heads, kv_heads = size
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=None,
        bos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = LlamaForCausalLM(config).to(device=device, dtype=dtype).eval().requires_grad_(False)
    adapter = ModelAdapter(model, name=name)
    n_params = sum(p.numel() for p in model.parameters())
    info = ModelInfo(
        name=name,
        arch="LlamaForCausalLM",
        n_layers=layers,
        width=width,
        n_params=n_params,
        vocab=VOCAB,
        dtype=str(dtype).removeprefix("torch."),
        device=str(device),
    )
    return Loaded(adapter, tokenizer, info)
