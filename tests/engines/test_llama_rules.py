"""By what rule a server of llama.cpp keeps drafts is told by its log: drawn drafts, and a coin, are no exact match."""

from pathlib import Path

import pytest

from engines.conftest import LlamaPair, llama_serving
from specviz.cli import main
from specviz.cli.look.stats import measure_file
from specviz.engines.watch import read_history
from specviz.events import Commit, Node, RoundEnd
from specviz.runlog.fold import Run, fold
from specviz.trace import read_events
from specviz.view.frame.judgement import RunCard

PROMPT = "abab hello abab hello"


def _counts(run: Run) -> list[tuple[int, int, int]]:
    return [(end.n_drafted, end.n_accepted, end.n_emitted) for r in run.rounds for end in r.every(RoundEnd)]


def _card(path: Path) -> RunCard:
    card = measure_file(path).judgement.card
    assert card is not None
    return card


@pytest.mark.parametrize(
    ("mode", "rule", "promise"),
    [("sampled", "u < p/q", "the law of plain decoding"), ("coin", "synthetic acceptance: a coin", "OUTPUT INVALID")],
)
def test_answer_and_log_agree_by_any_rule(
    llama_pair: LlamaPair, tmp_path: Path, mode: str, rule: str, promise: str
) -> None:
    answer, log = tmp_path / "told", tmp_path / "server.log"
    with llama_serving(llama_pair, log, mode) as server:
        words = ["--temperature", "1", "--seed", "3", "--max-new-tokens", "48"]
        assert main(["attach", server.url, PROMPT, "-o", str(answer), *words]) == 0
        log.write_text(server.settled())
    assert main(["import", str(log), "-o", str(tmp_path / "log")]) == 0
    run = fold(read_events(tmp_path / "log"))
    assert _counts(run) == _counts(fold(read_events(answer)))
    assert sum(kept for _, kept, _ in _counts(run)) > 0
    card = _card(tmp_path / "log")
    assert rule in dict(card.rows)["rule in force"]
    assert promise in dict(card.rows)["promise"]
    assert not card.violations


def _log(kept: str, share: str = "1.000, 0.000", rounds: int = 1, coin: bool = False) -> str:
    """A request of two tokens drafted a round; `kept`: what the first place kept, where 5 was the likeliest."""
    lines = ["srv load_model: build_info: b9-x"]
    if coin:
        lines.append("spec common_specu: synthetic acceptance: n_max = 2, mean length = 2.0, rates = [0.5, 0.5]")
    slot = "id  0 | task 0 |"
    lines.append(f"slot operator(): {slot} new prompt, n_ctx_slot = 64, n_keep = 0, task.n_tokens = 7")
    lines.append(f"slot process_toke: {slot} n_gen = 1, n_remaining = 9, next token:     9 ' z'")
    for _ in range(rounds):
        for place, likeliest in enumerate((5, 6)):
            for k, q in enumerate((0.6, 0.3)):
                token = likeliest if k == 0 else 70 + place
                lines.append(
                    f"spec draft:  - seq_id 0, draft candidate   {k}, pos   {place}: {token:6d} ({q:8.3f}) ' x'"
                )
        lines.append(f"slot handle_last_: {slot} generate_draft: id=9, #tokens=7, #draft=2, pos_next=7")
        lines.append(f"slot operator(): {slot} add accepted tokens: sampled=8, ids.size=2, n_draft=2")
        lines += [f"slot process_toke: {slot} n_gen = 2, n_remaining = 8, next token:  {t} ' y'" for t in (kept, "8")]
    accepted = f"{rounds:5d} accepted / {2 * rounds:5d} generated"
    lines.append(f"slot print_timing: {slot} draft acceptance = 0.50000 ({accepted}), mean len =  2.00")
    lines.append(f"slot print_timing: {slot}      acc per pos = ({share})")
    lines.append(f"slot release: {slot} stop processing: n_tokens = 9, truncated = 0")
    return "".join(f"0.00.{n:03d}.000 I {line}\n" for n, line in enumerate(lines))


def test_a_token_that_was_not_the_likeliest_shows_that_drafts_are_drawn(tmp_path: Path) -> None:
    """Of the kept ones id and q are known; which token was refused behind them is not, and none is made up."""
    (tmp_path / "log").write_text(_log("70", rounds=2))
    assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "a")]) == 0
    run = fold(read_events(tmp_path / "a"))
    nodes = [node for record in run.rounds for node in record.every(Node)]
    assert [node.token for node in nodes] == [70, -1, 70, -1]
    assert [None if node.logq is None else round(2.718281828**node.logq, 3) for node in nodes] == [0.3, None, 0.3, None]
    assert [c.tokens for record in run.rounds for c in record.every(Commit)] == [[9], [70, 8], [70, 8]]
    assert [warning.code for warning in run.warnings] == ["refused_unknown"]
    card = _card(tmp_path / "a")
    assert "u < p/q" in dict(card.rows)["rule in force"]
    assert not card.violations


def test_a_rule_that_the_log_denies_is_said(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(_log("70"))
    assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "a"), "--rule", "exact match"]) == 0
    assert "--rule p/q" in " ".join(_card(tmp_path / "a").violations)


def test_likeliest_drafts_are_matched_and_a_coin_is_named(tmp_path: Path) -> None:
    for coin, tone in ((False, "kept"), (True, "broken")):
        (tmp_path / "log").write_text(_log("5", coin=coin))
        assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "a"), "--force"]) == 0
        card = _card(tmp_path / "a")
        assert card.tone == tone
        assert "3 totals" in dict(card.rows)["identities checked"]
    assert "no verifier here decides so" in dict(card.rows)["rule in force"]


@pytest.mark.parametrize("words", ["generate_draft:", "add accepted tokens", "next token:"])
def test_a_log_of_another_version_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    """Its totals count drafts that no line tells of: what was read stays, or the totals alone, and neither is taken
    for plain decoding."""
    (tmp_path / "log").write_text(_log("5", rounds=2).replace(words, words.upper()))
    code = main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "a")])
    error = capsys.readouterr().err
    assert "another version than October 2026" in error.splitlines()[0]
    if code == 0:
        assert "totals, no single rounds" in error
        (look,) = read_history(tmp_path / "a")
        assert look.n_drafted
    else:
        assert code == 2
        assert error.count("\n") == 1
        assert bool(list(tmp_path.glob("a.*"))) == ("what was read is in" in error)


def test_a_log_without_times_is_read(tmp_path: Path) -> None:
    stamped = _log("5", rounds=2)
    (tmp_path / "log").write_text("".join(line[len("0.00.000.000 I ") :] for line in stamped.splitlines(True)))
    assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "a")]) == 0
    run = fold(read_events(tmp_path / "a"))
    assert _counts(run) == [(0, 0, 1), (2, 1, 2), (2, 1, 2)]
    assert measure_file(tmp_path / "a").metrics.tokens_per_second is None


def test_of_drafts_that_the_log_does_not_name_the_kept_are_known(tmp_path: Path) -> None:
    """A lookup draws from no row, so no candidates are printed for it."""
    lines = [line for line in _log("5").splitlines(True) if "draft candidate" not in line]
    (tmp_path / "log").write_text("".join(lines))
    assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "a")]) == 0
    run = fold(read_events(tmp_path / "a"))
    assert [(node.token, node.logq) for record in run.rounds for node in record.every(Node)] == [(5, None), (-1, None)]
    assert [warning.code for warning in run.warnings] == ["drafts_unnamed"]


def test_positions_of_the_log_are_held_against_its_rounds(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(_log("5", share="0.500, 0.500", rounds=2))
    assert main(["import", str(tmp_path / "log"), "-o", str(tmp_path / "a")]) == 0
    (words,) = _card(tmp_path / "a").violations
    assert words == "the engine counted 1, 1 accepted tokens by position, its rounds add up to 2"
