"""`specviz export`: what it writes where, and what it refuses and how."""

import os
import shutil
import sys
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from cli.conftest import Cli
from specviz.tables import WHOLE
from specviz.view.stage.chromium import executable
from support.recordings import RECORDINGS

TRACE = RECORDINGS["sums-draft"]
drawn = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)


@drawn
def test_a_round_as_svg_and_png(cli: Cli, tmp_path: Path) -> None:
    drawn, dark = tmp_path / "round.svg", tmp_path / "round.png"
    assert cli("export", TRACE, "--svg", "r4", "-o", drawn).out == f"{drawn}\n"
    root = ElementTree.parse(drawn).getroot()
    done = cli("export", TRACE, "--png", "r4", "--theme", "dark", "-o", dark)
    assert done.code == 0
    assert done.err.endswith(" kB\n")
    image = Image.open(BytesIO(dark.read_bytes()))
    assert image.size == (int(root.attrib["width"]) * 2, int(root.attrib["height"]) * 2)
    corner = image.getpixel((1, 1))
    assert isinstance(corner, tuple)
    assert max(corner) < 60


@drawn
def test_a_phase_and_a_node_are_another_picture(cli: Cli, tmp_path: Path) -> None:
    asked = (["r4"], ["r4", "--phase", "verify"], ["q0/r4/n14"])
    files = []
    for n, words in enumerate(asked):
        out = tmp_path / f"{n}.svg"
        assert cli("export", TRACE, "--svg", *words, "-o", out, "--quiet") == (0, f"{out}\n", "")
        files.append(out.read_text("utf-8"))
    assert len(set(files)) == len(files)
    assert "One pass of the target" in files[1]


@drawn
def test_a_gif_of_two_rounds(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "rounds.gif"
    assert cli("export", TRACE, "--gif", "r2-r3", "--width", "480", "--speed", "8", "-o", out).code == 0
    image = Image.open(BytesIO(out.read_bytes()))
    assert image.size[0] == 480
    assert image.n_frames > 10


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_go_into_a_folder(kind: str, cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "tables"
    done = cli("export", TRACE, f"--{kind}", folder)
    whole = ("runs", "requests") if kind == "parquet" else ()
    wanted = [folder / f"{name}.{kind}" for name in (*whole, "rounds", "nodes", "tests")]
    assert done == (0, "".join(f"{path}\n" for path in wanted), "")
    assert "--force" in cli("export", TRACE, f"--{kind}", folder).line
    assert cli("export", TRACE, f"--{kind}", folder, "--force").code == 0
    if kind == "csv":
        assert wanted[0].read_text("utf-8").startswith("query,round,")


@drawn
def test_without_a_name_it_is_named_after_trace_and_round(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli("export", TRACE, "--svg", "r4/n14").out == "sums-draft-r4-n14.svg\n"
    assert "--force" in cli("export", TRACE, "--svg", "r4/n14").line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name one thing to export"),
        (["--svg", "r1", "--png", "r1"], "together: --svg, --png"),
        (["--svg", "nine"], "write a round as r4"),
        (["--gif", "r1-r2-r3"], "r3-r7 for several"),
        (["--gif", "r5-r2"], "turn them round"),
        (["--chrome", "r1-r2"], "Chrome traces are not written any more"),
        (["--gif", "r1-r19"], "19 rounds are too many"),
        (["--svg", "r999"], "there are r1 to r"),
        (["--svg", "q7/r1"], "no query 7; there are q0"),
        (["--svg", "r4/n999"], "no node 999; there are n"),
        (["--svg", "r1", "--speed", "2"], "--speed says nothing of --svg"),
        (["--csv", "x", "--theme", "dark"], "--theme says nothing of --csv"),
        (["--gif", "r1", "--phase", "draft"], "--phase says nothing of --gif"),
        (["--svg", "r1", "--width", "20"], "480"),
    ],
)
def test_what_cannot_be_made_is_told_in_one_line(words: list[str], message: str, cli: Cli, tmp_path: Path) -> None:
    more = [] if "--csv" in words else ["-o", str(tmp_path / "x")]
    assert message in cli("export", TRACE, *words, *more).line
    assert not list(tmp_path.iterdir())


def test_a_phase_that_a_round_lacks_is_told_with_those_it_has(cli: Cli, tmp_path: Path) -> None:
    line = cli("export", RECORDINGS["sums-ar"], "--svg", "r2", "--phase", "verify", "-o", tmp_path / "x").line
    assert "it has root, close, commit" in line


@pytest.mark.parametrize(
    ("kind", "module"), [("svg", "playwright"), ("png", "playwright"), ("gif", "PIL"), ("parquet", "pyarrow")]
)
def test_a_missing_extra_is_named_with_the_line_that_installs_it(
    kind: str, module: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROMIUM", sys.executable)  # that none is installed is not what is told
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, f"{module}.sync_api" if module == "playwright" else module, None)
    words = [tmp_path / "t"] if kind == "parquet" else ["r1", "-o", tmp_path / "x"]
    line = cli("export", TRACE, f"--{kind}", *words).line
    assert "pip install 'specviz-llm[export]'" in line


def test_csv_needs_no_extra(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("PIL", "pyarrow", "playwright"):
        monkeypatch.setitem(sys.modules, module, None)
    assert cli("export", TRACE, "--csv", tmp_path).code == 0


def test_without_a_browser_it_is_told_what_to_install(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("specviz.view.stage.chromium._PLACES", ())
    done = cli("export", TRACE, "--svg", "r1", "-o", tmp_path / "x.svg")
    assert done.code == 2
    assert "apt-get install chromium" in done.line


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
@pytest.mark.parametrize(
    "words",
    [("export", "--html"), ("compare",), ("export", "--csv"), ("export", "--parquet")],
    ids=" ".join,
)
def test_who_may_not_read_the_trace_may_not_read_what_is_made_of_it(
    cli: Cli, tmp_path: Path, words: tuple[str, ...], mode: int, there: bool
) -> None:
    """Also where a file that all may read is written over; the strictest of several traces decides."""
    trace, open_to_all, out = tmp_path / "run.sv.jsonl.gz", tmp_path / "all.sv.jsonl.gz", tmp_path / "out"
    for path, allowed in ((trace, mode), (open_to_all, 0o666)):
        shutil.copy(TRACE, path)
        path.chmod(allowed)
    tables = words[-1] in ("--csv", "--parquet")
    if there:
        out.mkdir() if tables else out.touch()
        for name in [f"{table.name}.{words[-1][2:]}" for table in WHOLE] if tables else []:
            (out / name).touch()
        for path in [*out.iterdir()] if tables else [out]:
            path.chmod(0o666)
    traces = (open_to_all, trace) if words == ("compare",) else (trace,)
    to = (out,) if tables else ("-o", out)
    before = os.umask(0)
    try:
        done = cli(words[0], *traces, *words[1:], *to, "--force")
    finally:
        os.umask(before)
    assert done.code == 0
    paths = [Path(line) for line in done.out.splitlines()] if tables else [out]
    assert {path.stat().st_mode & 0o777 for path in paths} == {mode}
