"""`specviz lab prove`: what it prints, in words and as JSON, and how it ends."""

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
from specviz.probability.table_models import CASE_A, CASE_C, law
from specviz.verifiers import all_verifiers, get_verifier
from specviz_lab.prove import jobs

A2 = ("--case", "A", "--gamma", "2", "--layout", "chain")


def by_verifier(out: str) -> dict[str, Any]:
    """The proofs of `--json` by verifier."""
    return {proof["verifier"]: proof for proof in json.loads(out)["proofs"]}


def test_json_has_the_laws_as_numbers_and_as_fractions(cli: Cli) -> None:
    done = cli("lab", "prove", "tokenwise", "hsd", "hsd_ref", *A2, "--json")
    assert (done.code, done.err) == (0, "")
    report = by_verifier(done.out)
    assert list(report) == ["tokenwise", "hsd", "hsd_ref"]
    hsd = report["hsd"]
    assert hsd["law"] == {",".join(map(str, k)): pytest.approx(float(v)) for k, v in law(CASE_A.p, 3).items()}
    assert (hsd["max_abs_err"], hsd["tv"], hsd["lossless"]) == (0, 0, True)
    assert hsd["expected_accepted"] == pytest.approx(11 / 9)
    assert hsd["accepted_law"] == pytest.approx([1 / 3, 1 / 9, 5 / 9])
    assert hsd["exact"]["expected_accepted"] == "11/9"
    assert Fraction(hsd["exact"]["law"]["0,0,0"]) == Fraction(1, 27)
    assert (report["hsd_ref"]["lossless"], report["hsd_ref"]["exact"]["tv"]) == (False, "1/9")


def test_tokens_of_no_probability_are_not_in_the_law(cli: Cli) -> None:
    report = by_verifier(cli("lab", "prove", "walk", "--case", "C", "--gamma", "1", "--layout", "chain", "--json").out)
    assert report["walk"]["law"].keys() == {",".join(map(str, text)) for text in law(CASE_C.p, 2)}


def test_json_of_the_cases_is_a_list(cli: Cli) -> None:
    report = json.loads(cli("lab", "prove", "hsd", "walk", "--case", "a", "--json").out)
    places = [(p["case"], p["gamma"], p["verifier"], p["layout"]) for p in report["proofs"]]
    assert ("A", 2, "hsd", "chain") in places
    assert ("A", 3, "walk", "shared") in places
    assert all(p["lossless"] and p["golden_agrees"] is not False for p in report["proofs"])
    assert report["controls"] == []


def test_the_words_say_what_is_proved_and_what_came_out(cli: Cli) -> None:
    done = cli("lab", "prove", "hsd", "tokenwise", "--case", "A", "--gamma", "2")
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
    done = cli("lab", "prove")
    assert done.code == 0
    for title in ("case A, gamma 2", "case B, gamma 3", "case C, gamma 3", "wrong rules"):
        assert title in done.out
    text = " ".join(done.out.split())
    assert "hsd_ref: HSD as published code has it" in text
    assert "✗ 7/108 = 0.064815 7/108 ✓" in text
    assert "hsd and blockwise are one rule" in text


def test_a_false_claim_ends_with_1(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    liar = replace(get_verifier("hsd_ref"), name="liar", lossless=True)
    monkeypatch.setattr(jobs, "all_verifiers", lambda: {**all_verifiers(), "liar": liar})
    done = cli("lab", "prove", "liar", "tokenwise", *A2)
    assert done.code == 1
    assert "✗ liar (case A, gamma 2, chain) is NOT lossless: TV 1/9" in done.out
    assert "✓ lossless, exactly: tokenwise" in done.out
    as_json = cli("lab", "prove", "liar", *A2, "--json")
    assert as_json.code == 1
    assert by_verifier(as_json.out)["liar"]["lossless"] is False
    assert "liar (case A, gamma 2, chain) is NOT lossless" in as_json.err
    assert cli("lab", "prove", "hsd_ref", *A2).code == 0


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["blokwise"], "no verifier 'blokwise'; did you mean 'blockwise'?"),
        (["--case", "E"], "no case 'E'; there are A, B and C"),
        (["hsd", "--layout", "caterpilar"], "no layout 'caterpilar'; did you mean 'caterpillar'?"),
        (["hsd", "--layout", "caterpillar"], "hsd cannot judge the draft (caterpillar 2): it judges one chain"),
        (["hsd", "--layout", "parallel", "--distinct"], "hsd cannot judge the draft (2 chains, distinct): it judges"),
        (["hsd", "--gamma", "9"], ""),
        (["HSD"], "no verifier 'HSD'; did you mean 'hsd'?"),
        (["hsd", "--layout", ""], "no layout ''"),
        (
            ["multi_hsd", "--layout", "drawn_tree", "--gamma", "4", "--candidates", "4"],
            "multi_hsd (case A, gamma 4, drawn tree 4) has more than 5,000 drafts to follow; lower --gamma",
        ),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], line: str, cli: Cli) -> None:
    assert cli("lab", "prove", *arguments).line.startswith(line)


def test_what_cannot_judge_a_layout_is_left_out(cli: Cli) -> None:
    done = cli("lab", "prove", "--case", "A", "--gamma", "2", "--layout", "caterpillar")
    assert (done.code, done.err) == (0, "")
    shown = {line.split()[0] for line in done.out.splitlines() if "caterpillar 2" in line}
    assert {"multi_hsd", "tokenwise", "walk"} <= shown
    assert not shown & {"blockwise", "hsd"}


def test_nothing_to_prove_is_no_proof(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "all_verifiers", lambda: {"hsd": get_verifier("hsd")})
    assert cli("lab", "prove", "--layout", "caterpillar").line.startswith("no verifier can judge such a draft")


def test_options_reach_the_proofs(cli: Cli) -> None:
    one = ("--case", "A", "--gamma", "1", "--candidates", "3", "--layout", "parallel", "--json")
    report = by_verifier(cli("lab", "prove", "multi_hsd", *one).out)["multi_hsd"]
    assert (report["gamma"], report["candidates"], report["layout"]) == (1, 3, "parallel")
    report = by_verifier(cli("lab", "prove", "walk", "--case", "A", "--layout", "shared", "--floats", "--json").out)[
        "walk"
    ]
    assert (report["layout"], report["exact"]) == ("shared", None)


def test_longer_proofs_are_left_out_and_said(cli: Cli) -> None:
    done = cli("lab", "prove", "--case", "A", "--gamma", "3")
    assert "left out for time: 6 longer proofs (caterpillar, drawn_tree)" in done.err
    assert "2 chains" in done.out
    done = cli("lab", "prove", "multi_tokenwise", "--case", "A", "--gamma", "3")
    assert "left out for time: 1 longer proof (drawn_tree)" in done.err
    assert "caterpillar 2" in done.out


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


def test_a_reader_that_goes_away_is_told_by_its_own_code() -> None:
    """`| head -1`: more is printed than a pipe that nobody reads would take."""
    code = "import sys; from specviz.cli import main; sys.exit(main(sys.argv[1:]))"
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", code, "lab", "prove", "hsd", "--case", "A"]
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("Traceback")) == (141, 0)
