"""What crosses to the browser, the saved page and the notebook is msgspec's structs, with defaults left out."""

from collections.abc import Iterator
from typing import Any

import msgspec.inspect
import pytest

from specviz.view.compare.score import Score
from specviz.view.frame.frame import PlayState
from specviz.view.frame.parts import KnobItem
from specviz.view.lessons.parts import LessonScript
from specviz.view.stage.parts import LiveUpdate, StageRound, StageRun, StageWhatIf, TimelinePage

CROSSING = (StageRun, StageRound, StageWhatIf, TimelinePage, LiveUpdate, LessonScript, PlayState, KnobItem, Score)


def parts_of(told: Any) -> Iterator[Any]:
    """Every type that a type is made of, itself among them."""
    seen, waiting = [], [told]
    while waiting:
        one = waiting.pop()
        if isinstance(one, msgspec.inspect.Field):
            waiting.append(one.type)
        elif isinstance(one, tuple):
            waiting.extend(one)
        elif isinstance(one, msgspec.inspect.Type) and not any(one is other for other in seen):
            seen.append(one)
            waiting.extend(getattr(one, name) for name in one.__struct_fields__)
            yield one


@pytest.mark.parametrize("kind", CROSSING)
def test_records_are_structs_without_their_defaults(kind: type) -> None:
    records = [one for one in parts_of(msgspec.inspect.type_info(kind)) if hasattr(one, "fields")]
    assert records
    for record in records:
        assert isinstance(record, msgspec.inspect.StructType), record.cls
        spoken = record.cls.__struct_config__
        assert spoken.omit_defaults or spoken.array_like or all(field.required for field in record.fields), record.cls
