"""`specviz prove`: what it prints, in words and as JSON, and how it ends."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Cli
from specviz.probability.table_models import CASE_A, law
from specviz.prove import jobs
from specviz.verifiers import all_verifiers, get_verifier

IID = {"type": "iid", "probs": ["1/3", "2/3"]}
TABLES: dict[str, Any] = {"vocab": 2, "gamma": 2, "p": IID, "q": {"type": "iid", "probs": ["2/3", "1/3"]}}


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Case A as a file."""
    return write(tmp_path)


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "mine.json"
    path.write_text(json.dumps({**TABLES, **changes}))
    return path


def test_json_of_tables_is_by_verifier(cli: Cli, tables: Path) -> None:
    done = cli("prove", "tokenwise", "hsd", "hsd_ref", "--tables", tables, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert list(found) == ["tokenwise", "hsd", "hsd_ref"]
    hsd = found["hsd"]
    assert hsd["law"] == {",".join(map(str, k)): pytest.approx(float(v)) for k, v in law(CASE_A.p, 3).items()}
    assert (hsd["max_abs_err"], hsd["tv"], hsd["lossless"]) == (0, 0, True)
    assert hsd["expected_accepted"] == pytest.approx(11 / 9)
    assert hsd["accepted_law"] == pytest.approx([1 / 3, 1 / 9, 5 / 9])
    assert hsd["exact"]["expected_accepted"] == "11/9"
    assert Fraction(hsd["exact"]["law"]["0,0,0"]) == Fraction(1, 27)
    assert (found["hsd_ref"]["lossless"], found["hsd_ref"]["exact"]["tv"]) == (False, "1/9")


def test_tokens_of_no_probability_are_not_in_the_law(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path, gamma=1, p={"type": "iid", "probs": [1, 0]})
    assert json.loads(cli("prove", "walk", "--tables", path, "--json").out)["walk"]["law"] == {"0,0": 1.0}


def test_json_of_the_cases_is_a_list(cli: Cli) -> None:
    found = json.loads(cli("prove", "hsd", "walk", "--case", "a", "--json").out)
    places = [(p["case"], p["gamma"], p["verifier"], p["layout"]) for p in found["proofs"]]
    assert ("A", 2, "hsd", "chain") in places
    assert ("A", 3, "walk", "shared") in places
    assert all(p["lossless"] and p["golden_agrees"] is not False for p in found["proofs"])
    assert found["controls"] == []


def test_the_words_say_what_is_proved_and_what_came_out(cli: Cli) -> None:
    done = cli("prove", "hsd", "tokenwise", "--case", "A", "--gamma", "2")
    assert (done.code, done.err) == (0, "")
    assert "nothing is sampled" in done.out
    line = next(line for line in done.out.splitlines() if line.startswith("hsd "))
    for part in ("11/9 = 1.222222", "11/9 ✓", "2.2222", "✓ exact"):
        assert part in line
    assert "✓ lossless, exactly: hsd, tokenwise (3 proofs" in done.out
    assert "\x1b" not in done.out


def test_without_arguments_everything_and_the_wrong_rules(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: get_verifier(name) for name in ("hsd", "blockwise", "hsd_ref")}
    monkeypatch.setattr(jobs, "all_verifiers", lambda: few)  # the others take their time
    done = cli("prove")
    assert done.code == 0
    for title in ("case A, gamma 2", "case B, gamma 3", "case C, gamma 3", "wrong rules"):
        assert title in done.out
    text = " ".join(done.out.split())
    assert "hsd_ref: HSD as published code has it" in text
    assert "✗ 7/108 = 0.064815 7/108 ✓" in text
    assert "hsd and blockwise are one rule" in text


def test_a_false_claim_ends_with_1(cli: Cli, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    liar = replace(get_verifier("hsd_ref"), name="liar", lossless=True)
    monkeypatch.setattr(jobs, "all_verifiers", lambda: {**all_verifiers(), "liar": liar})
    done = cli("prove", "liar", "tokenwise", "--tables", tables)
    assert done.code == 1
    assert "✗ liar (mine.json, gamma 2, chain) is NOT lossless: TV 1/9" in done.out
    assert "✓ lossless, exactly: tokenwise" in done.out
    as_json = cli("prove", "liar", "--tables", tables, "--json")
    assert as_json.code == 1
    assert json.loads(as_json.out)["liar"]["lossless"] is False
    assert "liar (mine.json, gamma 2, chain) is NOT lossless" in as_json.err
    assert cli("prove", "hsd_ref", "--tables", tables).code == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["blokwise"], "no verifier 'blokwise'; did you mean 'blockwise'?"),
        (["--case", "E"], "no case 'E'; there are A, B, C and D"),
        (["--case", "A", "--case", "D"], "case D is one draft worked through"),
        (["hsd", "--layout", "caterpilar"], "no layout 'caterpilar'; did you mean 'caterpillar'?"),
        (["hsd", "--layout", "caterpillar"], "hsd cannot judge the draft (caterpillar 2): it judges one chain"),
        (["hsd", "--case", "C", "--gamma", "9"], "hsd on case C, gamma 9 (chain) has some"),
        (["HSD"], "no verifier 'HSD'; did you mean 'hsd'?"),
        (["hsd", "--layout", ""], "no layout ''"),
        (
            ["multi_hsd", "--layout", "drawn_tree", "--gamma", "16", "--candidates", "16"],
            "multi_hsd on case A, gamma 16 (drawn tree 16) has more than a million million paths, more than a year;",
        ),
        (["walk", "--layout", "tree", "--gamma", "16", "--candidates", "4", "--case", "C"], "walk on case C, gamma 16"),
        (["--gamma", "16"], ""),
        (
            ["--case", "D", "--gamma", "2"],
            "case D is one given draft",
        ),
        (
            ["--case", "D", "--distinct"],
            "case D is one given draft",
        ),
        (["slack", "--case", "D"], "case D is judged by lossless verifiers of one drawn chain, not by slack"),
        (["--tables", "none.json"], "cannot read the tables none.json"),
        (["--tables", "none.json", "--case", "A"], "--case and --tables are two sources of tables"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], line: str, cli: Cli) -> None:
    assert cli("prove", *arguments).line.startswith(line)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"p": {"type": "iid", "probs": [0.5, 0.6]}}, "p.probs: sums to 1.1, not 1"),
        ({"p": {"type": "iid"}}, "needs 'probs'"),
        ({"gama": 3}, "unknown key 'gama'; did you mean 'gamma'?"),
        ({"q": {"type": "prefix", "rows": {"": [0.5, 0.5]}}}, 'mine.json: q has no row for the prefix "0"'),
        ({"p": {"type": "prefix", "rows": {"0": [1, 0]}}}, 'mine.json: p has no row for the prefix ""'),
        ({"tree": [[0], [0, 1, 1]]}, "tree[1] has 3 tokens and gamma is 2; raise gamma"),
    ],
)
def test_broken_tables_are_one_line(changes: dict[str, Any], part: str, cli: Cli, tmp_path: Path) -> None:
    assert part in cli("prove", "hsd", "--tables", write(tmp_path, **changes)).line


def test_what_does_not_fit_the_tables_is_said_and_left_out(cli: Cli, tmp_path: Path) -> None:
    done = cli("prove", "--tables", write(tmp_path, candidates=2, layout="caterpillar"))
    assert done.code == 0
    assert "specviz: left out: blockwise, hsd, hsd_naive, hsd_ref, slack: it judges one chain" in done.err
    shown = {line.split()[0] for line in done.out.splitlines() if "caterpillar 2" in line}
    assert {"multi_hsd", "tokenwise", "walk"} <= shown
    assert not shown & {"blockwise", "hsd"}


def test_nothing_to_prove_is_no_proof(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "all_verifiers", lambda: {"hsd": get_verifier("hsd")})
    assert cli("prove", "--layout", "caterpillar").line.startswith("no verifier can judge such a draft")


def test_options_reach_the_tables(cli: Cli, tables: Path) -> None:
    found = json.loads(cli("prove", "multi_hsd", "--tables", tables, "--gamma", "1", "--candidates", "2", "--json").out)
    assert (found["multi_hsd"]["gamma"], found["multi_hsd"]["layout"]) == (1, "parallel")
    found = json.loads(cli("prove", "walk", "--tables", tables, "--layout", "shared", "--floats", "--json").out)
    assert (found["walk"]["layout"], found["walk"]["exact"]) == ("shared", None)


def test_tables_without_rows_for_a_second_block_are_said(cli: Cli, tmp_path: Path) -> None:
    p = {"type": "prefix", "rows": {"": [0.5, 0.5], "0": [0.1, 0.9], "1": [1, 0]}}
    q = {"type": "prefix", "rows": {"": [0.9, 0.1]}}
    done = cli("prove", "hsd", "--tables", write(tmp_path, gamma=1, p=p, q=q))
    assert (done.code, done.err.count("block after block was not checked")) == (0, 1)


def test_longer_proofs_are_left_out_and_said(cli: Cli) -> None:
    done = cli("prove", "multi_tokenwise", "--case", "A", "--gamma", "3")
    assert "left out for time: 2 longer proofs (caterpillar, drawn_tree)" in done.err
    assert "2 chains" in done.out


def test_case_d_is_worked_through(cli: Cli) -> None:
    done = cli("prove", "--case", "D")
    assert (done.code, done.err) == (0, "")
    assert "every value is the golden one" in done.out
    row = next(line.split() for line in done.out.splitlines() if line.startswith("1 "))
    assert row[:8] == ["1", "0.82", "0.82", "0", "0.82", "0.02525", "0.20525", "0.123021"]
    found = json.loads(cli("prove", "hsd", "--case", "d", "--json").out)
    assert found["positions"][1]["h"] == "101/821"
    assert found["stop_laws"] == {"hsd": {"4": "1"}}


def test_an_output_without_our_marks_gets_their_short_forms(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; from specviz.cli import main; sys.exit(main(['prove', 'hsd', '--case', 'A', '--gamma', '1']))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=60, check=True)
    text = done.stdout.decode("ascii")
    assert "+ exact" in text
    assert "\\u" not in text


def test_no_model_library_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys, json; from specviz.cli import main; code = main(['prove', 'hsd', 'multi_hsd', '--case', 'A']);"
        "print(json.dumps([code, sorted(sys.modules)]))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    ).stdout
    code_, modules = json.loads(out.splitlines()[-1])
    assert code_ == 0
    assert not {name.partition(".")[0] for name in modules} & {"torch", "transformers", "scipy", "textual"}
    assert not [name for name in modules if name.startswith(("specviz.engine", "specviz.methods.draft_model.drafter"))]


def test_tables_without_a_row_are_one_line_even_when_verifiers_are_left_out(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path, p={"type": "prefix", "rows": {"": [0.5, 0.5], "0": [1, 0], "1": [1, 0]}})
    assert 'p has no row for the prefix "0,0"' in cli("prove", "--tables", path).line


def test_a_slack_rule_need_not_keep_what_lossless_rules_keep_of_a_tree(cli: Cli, tmp_path: Path) -> None:
    """verification.md 3.8 is about lossless rules; `slack` keeps more, and says what it is."""
    done = cli("prove", "slack", "walk", "--tables", write(tmp_path, tree=[[0, 1]]), "--json")
    assert done.code == 0
    found = json.loads(done.out)
    assert found["slack"]["closed_form"] is None
    assert found["slack"]["expected_accepted"] > found["walk"]["expected_accepted"] == found["walk"]["closed_form"]


def test_a_draft_that_branches_only_later_is_refused_too(cli: Cli, tmp_path: Path) -> None:
    """Distinct siblings of a certain row are one; behind another text they are two."""
    q = {"type": "markov", "init": [1, 0], "trans": [[0.5, 0.5], [0.5, 0.5]]}
    options = ("--layout", "parallel", "--distinct", "--tables", write(tmp_path, q=q))
    assert cli("prove", "hsd", *options).line.startswith(
        "hsd cannot judge the draft (2 chains, distinct): it judges one"
    )
    assert cli("prove", "multi_hsd", *options).code == 0


def test_long_drafts_of_a_certain_row_are_cheap_and_of_a_wide_target_dear(cli: Cli, tmp_path: Path) -> None:
    certain = {"type": "iid", "probs": [1, *[0] * 9]}
    wide = {"type": "iid", "probs": ["1/10"] * 10}
    path = write(tmp_path, vocab=10, gamma=16, p=certain, q=certain)
    assert json.loads(cli("prove", "hsd", "--tables", path, "--json").out)["hsd"]["expected_accepted"] == 16
    assert (
        "hsd on mine.json, gamma 16"
        in cli("prove", "hsd", "--tables", write(tmp_path, vocab=10, gamma=16, p=wide, q=certain)).line
    )


@pytest.mark.parametrize("command", [["prove", "hsd", "--case", "A"], ["prove", "--case", "D"]], ids=str)
def test_a_reader_that_goes_away_is_told_by_its_own_code(command: list[str]) -> None:
    """`| head -1`: more is printed than a pipe that nobody reads would take."""
    code = "import sys; from specviz.cli import main; sys.exit(main(sys.argv[1:]))"
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run([sys.executable, "-c", code, *command], stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("Traceback")) == (141, 0)
