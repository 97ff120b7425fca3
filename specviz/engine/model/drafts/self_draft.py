"""The target itself, its weights in four bits, as a draft model (QSpec, ML-SpecQD): no training, any target.

Nothing is loaded twice: what is packed is said in `quantised`.
"""

import msgspec

from specviz.engine.model.few_bits.quantised import QuantisedAdapter
from specviz.engine.model.files.loading import Loaded, fingerprint


def self_draft(target: Loaded) -> Loaded:
    """The draft model that `self:int4` stands for. Raises ModelError for a target that has none."""
    adapter = QuantisedAdapter(target.adapter)
    info = msgspec.structs.replace(
        target.info, name=adapter.name, dtype="int4", hash=adapter.digest(fingerprint(target.adapter))
    )
    return Loaded(adapter, target.tokenizer, info)
