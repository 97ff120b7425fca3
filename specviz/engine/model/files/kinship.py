"""Whether a trained part was made for the loaded model.

Models are identified by a fingerprint of their weights. A known model comes from several sources whose weights are
rounded differently; a part made for one of them serves all, since drafts never change the text.
"""

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import fingerprint
from specviz.local_models.catalogue import KNOWN
from specviz.local_models.shipped import known_name


def made_for(weights: object, model: ModelAdapter) -> bool:
    """Whether what names those weights as its target's was made for this model."""
    ours = fingerprint(model)
    if weights == ours:
        return True
    known = next((known for known in KNOWN.values() if weights in known.weights), None)
    if known is None:
        return False
    return ours in known.weights or known_name(str(model.model.name_or_path)) == known.name
