"""The target itself, its weights in four or eight bits, as a draft model (QSpec, ML-SpecQD): no training, any target.

Nothing is loaded twice: what is packed is said in `quantised`.
"""

import msgspec

from specviz.engine.model.few_bits.quantised import QuantisedAdapter
from specviz.engine.model.few_bits.weight_only import Bits
from specviz.engine.model.files.loading import Loaded, fingerprint
from specviz.self_drafts import BITS


def self_draft(target: Loaded, name: str) -> Loaded:
    """The draft model that a name such as `self:int4` stands for. Raises ModelError for a target that has none."""
    bits: Bits = 4 if BITS[name] == 4 else 8
    adapter = QuantisedAdapter(target.adapter, bits)
    info = msgspec.structs.replace(
        target.info, name=adapter.name, dtype=f"int{bits}", hash=adapter.digest(fingerprint(target.adapter))
    )
    return Loaded(adapter, target.tokenizer, info)
