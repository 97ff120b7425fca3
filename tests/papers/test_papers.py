"""The papers' pages: what they name is there, what they let play decides there, and their numbers are recomputed."""

import ast
import re
from pathlib import Path

import msgspec
import pytest

from docs.pages import DOCS, ROOT
from specviz.errors import SpecvizError
from specviz.events import ExitRound, Expansion, Fork, Settle
from specviz.methods import all_methods
from specviz.methods.branch.spec import branch_count
from specviz.runlog.fold import fold
from specviz.runlog.run import RoundRecord
from specviz.trace import read_events
from specviz.trace.bundled import all_bundled
from specviz.traits import MethodTraits
from specviz.verifiers import all_verifiers
from specviz.view.frame.run_header import pages
from specviz_lab.papers.recomputed.specblock import kept_within
from specviz_lab.papers.recomputed.specbound import expected
from specviz_lab.papers.table import ComputedTable, Paper, filled, papers, places

PAPERS = list(papers().values())
_SYMBOL = re.compile(r"`((?:specviz|lab|tests|train)/[\w/]+\.py):([\w.]+)`")
_PLAYS = re.compile(r"`specviz tui (?P<recording>[\w-]+) --at (?P<place>[\w/]+)`")


def _page(paper: Paper) -> str:
    return (DOCS / "papers" / f"{paper.name}.md").read_text("utf-8")


def _defines(body: list[ast.stmt], names: list[str]) -> bool:
    """Whether a module or a class defines a name, and what it defines the names behind it."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == names[0]:
            return len(names) == 1 or _defines(node.body, names[1:])
        goals = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if len(names) == 1 and any(isinstance(goal, ast.Name) and goal.id == names[0] for goal in goals):
            return True
    return False


def _missing(page: str) -> list[str]:
    """The symbols that a page names and the sources do not define."""
    named = _SYMBOL.findall(page)
    return [f"{file}:{symbol}" for file, symbol in named if not _is_defined(ROOT / file, symbol)]


def _is_defined(path: Path, symbol: str) -> bool:
    return path.is_file() and _defines(ast.parse(path.read_text("utf-8")).body, symbol.split("."))


def test_a_symbol_that_went_is_found() -> None:
    rule = "specviz/verifiers/tokenwise.py"
    page = (
        f"`{rule}:plan` `{rule}:_Tokenwise.open` `{rule}:VERIFIER` `{rule}:plans` `{rule}:plan.open` `specviz/no.py:x`"
    )
    assert _missing(page) == [f"{rule}:plans", f"{rule}:plan.open", "specviz/no.py:x"]


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_formula_and_counterexample_leads_to_its_line(paper: Paper) -> None:
    page = _page(paper)
    files = [file for file, _ in _SYMBOL.findall(page)]
    assert any(file.startswith("specviz/") for file in files)
    assert any(file.startswith("tests/") for file in files)
    assert not _missing(page)


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_a_page_has_a_place_for_every_table_and_a_table_for_every_place(paper: Paper) -> None:
    assert list(places(_page(paper))) == list(paper.tables)
    assert 120 <= len(_page(paper).splitlines()) <= 200


@pytest.mark.parametrize(
    ("paper", "key"),
    [(paper, key) for paper in PAPERS for key in paper.tables],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_the_numbers_of_a_page_are_those_of_its_last_run(paper: Paper, key: str) -> None:
    written = places(_page(paper))[key]
    assert paper.tables[key]().markdown() == written, "specviz lab papers --page docs/papers writes it anew"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_no_table_of_ours_is_typed_by_hand(paper: Paper) -> None:
    """Outside of the markers stand formulas, counterexamples, and what a paper published."""
    page = _page(paper)
    for rows in places(page).values():
        page = page.replace(rows, "")
    heads = re.findall(r"(?<=\n\n)\|([^|\n]*)\|", page)
    assert heads
    assert {head.strip() for head in heads} <= {"what", "place", "task, target", "model", "pair", "reading"}


def _shown(paper: Paper) -> dict[str, RoundRecord]:
    """The rounds that a page opens, by recording and place."""
    out: dict[str, RoundRecord] = {}
    for recording, place in _PLAYS.findall(_page(paper)):
        number = int(place.removeprefix("r"))
        run = fold(read_events(all_bundled()[recording]))
        out[f"{recording} {place}"] = next(record for record in run.rounds if record.r == number)
    return out


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_every_page_plays_a_round_that_is_there(paper: Paper) -> None:
    rounds = _shown(paper)
    assert rounds
    assert all(record.complete and record.verdicts for record in rounds.values())


def test_the_round_of_speculative_sampling_rejects_by_its_uniform() -> None:
    (record,) = _shown(papers()["speculative-sampling"]).values()
    first, *others = record.verdicts.values()
    assert first.u is not None
    assert first.thr is not None
    assert first.thr <= first.u
    assert [other.status for other in others] == ["untested"] * 5


def test_the_round_of_hsd_keeps_a_token_that_would_have_failed_alone() -> None:
    (record,) = _shown(papers()["hsd"]).values()
    alone = [v.u is not None and v.thr is not None and v.u < v.thr for v in record.verdicts.values()]
    assert (alone[0], alone[-1]) == (False, True)
    assert all(verdict.status == "accepted" for verdict in record.verdicts.values())


def test_the_round_of_specbound_saves_what_its_stops_say() -> None:
    (record,) = _shown(papers()["specbound"]).values()
    exits, kept = record.first(ExitRound), sum(v.status == "accepted" for v in record.verdicts.values())
    assert exits is not None
    assert exits.layer_calls + exits.saved_calls == (kept + 1) * 30
    assert (kept, exits.layer_calls) == (4, 30 + 4 * 21)


def test_the_round_of_specbranch_forks_as_often_as_the_formula_says_and_one_survives() -> None:
    (record,) = _shown(papers()["specbranch"]).values()
    fork = record.first(Fork)
    assert fork is not None
    assert fork.conf is not None
    assert fork.k == branch_count(8, fork.conf, 49_152) == 5
    lost = [fate for settle in record.every(Settle) for _, fate in settle.fates].count("branch_lost")
    assert lost == (fork.k - 1) * fork.branch_len


def test_the_round_of_specblock_misses_with_the_root_s_whole_beam() -> None:
    (record,) = _shown(papers()["specblock"]).values()
    root = record.first(Expansion)
    assert root is not None
    assert (root.width, root.width_reason, root.bucket) == (10, "beam", 1)
    assert root.true_rank_emitted == 21
    assert not any(verdict.status == "accepted" for verdict in record.verdicts.values())


def test_more_width_is_slower_once_drafts_are_wrong() -> None:
    """Rows that always stop, at layer 4 of 32: beyond some width every further draft costs more than it brings."""

    def speed(most: int) -> float:
        tokens, drafts = expected(1.0, 0.85, most)
        return tokens * 32 / (32 + 4 * drafts)

    speeds = [speed(most) for most in (1, 5, 12, 40, 400)]
    assert max(speeds) == speeds[1]
    assert speeds[-1] < 1 < speeds[-2]


@pytest.mark.parametrize("budget", [4, 24])
def test_a_recorded_tree_cut_to_its_own_budget_is_itself(budget: int) -> None:
    """And to a smaller one, it keeps a beginning of what was kept."""
    for recording in ("explain-specblock", "explain-eagle3"):
        for record in fold(read_events(all_bundled()[recording])).rounds:
            kept = kept_within(record, budget)
            accepted = sum(verdict.status == "accepted" for verdict in record.verdicts.values())
            assert kept == accepted if budget == 24 else 0 <= kept <= min(accepted, budget)


def test_a_run_leads_to_the_pages_of_its_method_and_its_verifier() -> None:
    header = fold(read_events(all_bundled()["story-hsd"])).header
    assert header is not None
    assert pages(header) == ("docs/papers/speculative-sampling.md", "docs/papers/hsd.md")
    assert pages(msgspec.structs.replace(header, method_traits=MethodTraits(page="\x1b[31m"))) == (
        "⟨1B⟩[31m",
        "docs/papers/hsd.md",
    )
    named = {part.traits.page for part in (*all_methods().values(), *all_verifiers().values())} - {""}
    assert named == {f"docs/papers/{paper.name}.md" for paper in PAPERS}


def test_a_page_without_a_place_is_told() -> None:
    table = ComputedTable(("a",), (("1",),))
    page = "<!-- computed: one -->\nold\n<!-- end -->\nand more\n"
    assert filled(page, {"one": table}) == "<!-- computed: one -->\n| a |\n| --- |\n| 1 |\n<!-- end -->\nand more\n"
    with pytest.raises(SpecvizError, match="no place for two"):
        filled(page, {"two": table})
