"""The base class of drafters: every hook but `propose` has a default, and no other name stands in for one."""

import importlib
import inspect
import pkgutil

import pytest

from specviz import methods
from specviz.engine.decode.context import Context, Observation
from specviz.engine.decode.drafter import Drafter, FeatureTaps, OverlappingDrafter, QueryEnd
from specviz.engine.decode.round import QueryStats
from specviz.engine.model.adapter import FactoryModels
from specviz.knobs import Knobs, KnobSpec
from specviz.methods import all_methods
from specviz.probability.draft import Draft

HOOKS = {name for name in vars(OverlappingDrafter) | vars(Drafter) if not name.startswith("_")}


class Plainest(Drafter):
    """Only what has no default."""

    def propose(self, ctx: Context) -> Draft:
        return Draft()


def test_hooks_that_are_left_do_nothing() -> None:
    drafter, knobs, draft = Plainest(), Knobs({}), Draft()
    spec = KnobSpec(name="gamma", kind="int", default=4, help="")
    drafter.observe(Observation((), draft, None))
    drafter.on_abort()
    assert drafter.fitted(spec) is spec
    assert (drafter.parts(), drafter.reset_knobs(knobs)) == ({}, {})
    assert drafter.on_query_end(QueryEnd(0, knobs, QueryStats())) == ()
    assert drafter.next_query(FactoryModels(None, None, 0), knobs) is None  # type: ignore[arg-type]
    assert (drafter.cached(), drafter.version, drafter.clock) == (None, 0, None)
    assert (drafter.calibrated, drafter.overlaps) == (False, False)
    assert FeatureTaps.of(drafter, 4) == FeatureTaps.of(None, 4) == FeatureTaps()


def test_a_drafter_that_works_ahead_must_say_how() -> None:
    class Forgetful(OverlappingDrafter):
        def propose(self, ctx: Context) -> Draft:
            return Draft()

    with pytest.raises(TypeError, match="draft_ahead"):
        Forgetful()  # type: ignore[abstract]
    assert (Forgetful.overlaps, Forgetful.calibrated) == (True, True)


def test_the_drafter_of_every_method_is_one() -> None:
    """What a factory is annotated to return is a `Drafter`; None: plain decoding."""
    for method in all_methods().values():
        if method.drafter is not None:
            module, _, attribute = method.drafter.partition(":")
            factory = getattr(importlib.import_module(module), attribute)
            assert issubclass(inspect.get_annotations(factory, eval_str=True)["return"], Drafter), method.name


def test_no_drafter_has_a_name_that_is_nearly_a_hook() -> None:
    """A misspelt hook would be silent: a public method that differs from a hook by an underscore or an s."""
    n = 0
    for folder in pkgutil.iter_modules(methods.__path__):
        if folder.ispkg and importlib.util.find_spec(f"{methods.__name__}.{folder.name}.drafter"):
            module = importlib.import_module(f"{methods.__name__}.{folder.name}.drafter")
            for kind in vars(module).values():
                if inspect.isclass(kind) and issubclass(kind, Drafter):
                    n += 1
                    own = {name for name in vars(kind) if not name.startswith("_")} - HOOKS
                    assert not {name for name in own if name.replace("_", "") in HOOKS or f"{name}s" in HOOKS}, kind
    assert n > len(all_methods()) / 2
