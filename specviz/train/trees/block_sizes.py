"""What trained drafters take over from their target: the shape of a layer, the vocabulary, the head to begin with."""

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.trained.layers import LayerShape
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.train.common.tokens import Ids


def layer_like(adapter: ModelAdapter, width: int = 0) -> LayerShape:
    """A layer like the target's; with `width` a narrower one, heads and inner size in proportion."""
    theirs, full = adapter.config, int(adapter.head.weight.shape[1])
    own = width or full
    head_dim = int(getattr(theirs, "head_dim", None) or full // theirs.num_attention_heads)
    kv_heads = max(1, theirs.num_attention_heads * own // full // adapter.groups)
    heads = max(1, theirs.num_attention_heads * own // full // kv_heads) * kv_heads
    ff = int(getattr(theirs, "intermediate_size", None) or 4 * full) * own // full
    rope = getattr(theirs, "rope_parameters", None) or {}
    return LayerShape(own, heads, kv_heads, head_dim, ff, float(rope.get("rope_theta", 10_000.0)))


def vocabulary_of(adapter: ModelAdapter, ids: Ids, n: int) -> Vocabulary:
    """The `n` most frequent tokens of what the target wrote; 0: its whole vocabulary."""
    counts = torch.bincount(torch.from_numpy(ids.ravel()).long(), minlength=adapter.vocab)[: adapter.vocab]
    return Vocabulary.most_frequent(counts.to(adapter.device), n or adapter.vocab)


def head_rows(adapter: ModelAdapter, vocabulary: Vocabulary) -> torch.Tensor:
    """The target's head `[V_d, width]`, to be copied: a drafter's own must never share its storage."""
    rows: torch.Tensor = adapter.head.weight[: adapter.vocab].detach()
    return rows if vocabulary.ids is None else rows[vocabulary.ids]
