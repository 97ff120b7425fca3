"""A case of the clinic below the stage: what it hides, what is opened, and how an answer is marked."""

from app import onstage
from app.conftest import Open
from specviz.view.blocks import TableBlock
from specviz.view.clinic import HEALTHY, case_names, read_case
from specviz_app.server.core import Settings
from specviz_app.ui import clinic
from specviz_app.ui.lessons import CLINIC, LIST

THIRD = read_case(3)


def test_a_case_is_played_to_its_marks(open_page: Open) -> None:
    at = open_page(Settings(), "stage", clinic="3")
    assert not at.exception
    sent = onstage.handed(at)
    assert (sent["src"], sent["panel"], sent["welcome"]) == ("clinic-3", clinic.TAB[0], [])
    assert sent["panels"] == [list(clinic.TAB)]
    assert sent["large"], "what is asked is seen without scrolling"
    first = THIRD.decides[0]
    at.button(key=f"exhibit-{first}").click().run()
    assert not [button for button in at.button if button.key == "clinic-answer"]
    wrong = next(fault for fault in range(1, 17) if fault != THIRD.fault)
    at.selectbox(key="clinic-fault-3").set_value(wrong).run()
    at.radio(key="clinic-step-3").set_value(THIRD.right_step).run()
    at.button(key="clinic-answer").click().run()
    expected = read_case(3)
    expected.open(first)
    assert [word.replace("\\", "") for word in (warning.value for warning in at.warning)] == [
        expected.marks(wrong, THIRD.right_step).words
    ]
    assert (THIRD.fault == HEALTHY) == ("a false alarm" in expected.marks(wrong, 0).words)
    at.button(key="clinic-next").click().run()
    assert onstage.handed(at)["src"] == "clinic-4"


def test_what_is_opened_has_every_column_of_its_table(open_page: Open) -> None:
    at = open_page(Settings(), "stage", clinic="1")
    at.button(key="exhibit-card").click().run()
    card = next(exhibit for exhibit in read_case(1).exhibits if exhibit.key == "card").blocks[0]
    assert isinstance(card, TableBlock)
    assert at.dataframe[0].value.to_numpy().tolist() == [[cell.text for cell in row] for row in card.rows]


def test_a_case_that_is_not_there_is_named_and_another_run_leaves_it(open_page: Open) -> None:
    at = open_page(Settings(), "stage", clinic="99")
    assert f"1 to {len(case_names())}" in at.warning[0].value
    assert CLINIC not in at.query_params
    at.menu_button(key=LIST).click(CLINIC).run()
    assert onstage.handed(at)["src"] == "clinic-1"
    at.selectbox(key="src").set_value("code-draft").run()
    assert onstage.handed(at)["panels"]
    assert CLINIC not in at.query_params
