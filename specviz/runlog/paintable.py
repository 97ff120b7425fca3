"""`paintable(header)`: what a trace says of its models, safe to paint. A trace is named by whoever wrote it."""

from msgspec.structs import replace

from specviz.events import Header, ModelInfo
from specviz.text import running

MOST_LAYERS = 1_000  # of a model that is believed: a screen has a line for each


def paintable(header: Header) -> Header:
    """The header with the names of models, their parts and other words escaped, and no impossible number of layers."""
    models = header.models
    target, draft = (model and _paintable(model) for model in (models.target, models.draft))
    parts = {running(name): running(text) for name, text in models.parts.items()}
    method = replace(header.method_traits, threshold_symbol=running(header.method_traits.threshold_symbol))
    verifier = replace(header.verifier_traits, same_rule_as=running(header.verifier_traits.same_rule_as))
    models = replace(models, target=target, draft=draft, parts=parts)
    outside = header.outside
    if outside is not None:
        words = {name: running(str(getattr(outside, name) or "")) for name in ("engine", "setting", "how", "source")}
        outside = replace(outside, version=outside.version and running(outside.version), **words)
    return replace(header, models=models, outside=outside, method_traits=method, verifier_traits=verifier)


def _paintable(model: ModelInfo) -> ModelInfo:
    layers = model.n_layers if model.n_layers is not None and 0 < model.n_layers <= MOST_LAYERS else None
    return replace(model, name=running(model.name), n_layers=layers)
