"""Tokens, special tokens, templates, and how many rows the two models have for them."""

import hashlib
import json
from collections.abc import Iterator

from specviz.check.findings import PairFinding, error, note, warning
from specviz.check.side import ModelSide
from specviz.model_folder import BORROWS
from specviz.text import clip, shown

_CLIP = 40  # columns of a token


def check_words(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    """Everything about what the ids stand for."""
    yield from _tokens(target, draft)
    yield from _rows(target, draft)
    yield from _ends(target, draft)
    yield from _templates(target, draft)


def _tokens(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    if not target.tokens:
        yield warning(
            "tokenizer-missing", 5, "the target has no tokenizer.json", "save its tokenizer beside it, so ids compare"
        )
        return
    if not draft.tokens:
        if not draft.is_head and not (draft.folder / BORROWS).is_file():  # those draft in their target's ids
            alike = target.count("vocab_size") == draft.count("vocab_size")
            say = note if alike else warning
            yield say(
                "tokenizer-missing",
                5,
                "the draft has no tokenizer.json",
                "save its tokenizer beside it, so ids compare",
            )
        return
    first = next(
        (k for k in sorted({*target.tokens, *draft.tokens}) if target.tokens.get(k) != draft.tokens.get(k)), None
    )
    if first is None:
        return
    what = f"id {first} is {_named(target, first)} in the target and {_named(draft, first)} in the draft"
    n_same = sum(draft.tokens.get(k) == token for k, token in target.tokens.items())
    if first in target.tokens and first in draft.tokens:
        share = f"{n_same:,} of {len(target.tokens):,} ids alike"
        yield error("tokenizer-differs", 5, f"{what} ({share})", "use a draft of the same family and tokenizer")
    else:
        yield warning(
            "tokenizer-longer", 5, what, "ids that one of them lacks are never drafted, or never accepted: use one file"
        )


def _named(side: ModelSide, number: int) -> str:
    token = side.tokens.get(number)
    return "missing" if token is None else f"'{clip(shown(token), _CLIP)}'"


def _rows(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    mine, other = target.count("vocab_size"), draft.count("vocab_size")
    for side, which, rows in ((target, "target", mine), (draft, "draft", other)):
        n_tokens = max(side.tokens, default=-1) + 1
        if rows is not None and n_tokens > rows:
            yield error(
                "rows-too-few",
                5,
                f"the {which}'s tokenizer has ids up to {n_tokens - 1}, its model only {rows} rows",
                "resize the model's embeddings, or drop the added tokens",
            )
    if mine is not None and other is not None and mine != other and not draft.is_head:
        n_tokens = max({*target.tokens, *draft.tokens}, default=-1) + 1
        padding = f"; {n_tokens:,} are tokens, the rest is padding" if 0 < n_tokens <= min(mine, other) else ""
        yield warning(
            "padding-differs",
            5,
            f"the target has {mine:,} rows, the draft {other:,}{padding}",
            f"engines that compare vocab_size refuse the pair: cut both to {min(mine, other):,} rows, or pad the draft",
        )


def _ends(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    mine, other = (_as_set(side.get("eos_token_id")) for side in (target, draft))
    if mine and other and mine != other:
        yield warning(
            "eos-differs",
            7,
            f"the text ends at {sorted(mine)} in the target and at {sorted(other)} in the draft",
            "a draft that goes on behind the end is counted as drafted and lost: give both the same eos_token_id",
        )


def _as_set(value: object) -> set[int]:
    return {token_id for token_id in (value if isinstance(value, list) else [value]) if isinstance(token_id, int)}


def _templates(target: ModelSide, draft: ModelSide) -> Iterator[PairFinding]:
    mine, other = target.template, draft.template
    if mine is not None and other is not None and mine != other:
        marks = [hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8] for text in (mine, other)]
        yield warning(
            "template-differs",
            6,
            f"the chat templates differ ({marks[0]} in the target, {marks[1]} in the draft)",
            "train and serve the draft behind the target's template; compare by the text that each one writes",
        )
    if mine is not None and other is None and not draft.is_head and draft.tokens:
        yield note(
            "template-missing",
            6,
            "the target has a chat template, the draft none",
            "harmless where the target's is used for both; a draft that never saw its marks drafts badly behind them",
        )
    flags = ("add_bos_token", "add_eos_token", "add_prefix_space")
    settings = [{name: side.tokenizer_config.get(name) for name in flags} for side in (target, draft)]
    odd = [name for name in flags if None not in (a := [s[name] for s in settings]) and a[0] != a[1]]
    if odd:
        seen = ", ".join(f"{name} {json.dumps(settings[0][name])}/{json.dumps(settings[1][name])}" for name in odd)
        yield warning("prompt-differs", 6, f"prompts begin or end otherwise: {seen}", "set both tokenizers alike")
