"""`specviz doctor` and `specviz models`: what they say agrees with what is there."""

import json
import os
import shutil
import struct
from pathlib import Path

import pytest

from cli.conftest import Cli
from specviz.cli import models, options
from specviz.cli.look import doctor
from specviz.local_models.found import embedded_pair
from specviz.methods import all_methods


def test_doctor_says_the_same_to_people_and_programs(cli: Cli) -> None:
    report = json.loads(cli("doctor", "--json").out)
    text = cli("doctor").out
    for name, version in report["packages"].items():
        assert version is None or f"{name} " in text
        assert version is None or version in text
    assert f"{report['devices']['cpu']['cores']} cores" in text
    assert report["terminal"]["is_terminal"] is False


def test_a_missing_package_brings_the_line_that_installs_its_extra(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"web": ("click", "no-such-package")})
    extra = json.loads(cli("doctor", "--json").out)["extras"]["web"]
    assert (extra["missing"], extra["install"]) == (["no-such-package"], "pip install 'specviz-llm[web]'")
    assert "missing no-such-package: pip install 'specviz-llm[web]'" in cli("doctor").out


def test_an_extra_that_is_there_needs_no_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"base": ("click",)})
    extra = json.loads(cli("doctor", "--json").out)["extras"]["base"]
    assert (extra["missing"], extra["install"]) == ([], None)


def test_the_extras_doctor_knows_are_those_of_the_package() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    wanted = {name: " ".join(lines) for name, lines in project["optional-dependencies"].items()}
    assert doctor.EXTRAS.keys() == wanted.keys()
    for name, packages in doctor.EXTRAS.items():
        assert all(package in wanted[name] for package in packages), name


def test_no_color_is_reported(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "off (NO_COLOR)" in cli("doctor").out


def _saved(folder: Path, **config: object) -> Path:
    """A folder as `save_pretrained` leaves it: 6 + 4 parameters in bfloat16."""
    folder.mkdir()
    shapes = {"a": [2, 3], "b": [4]}
    header = {name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    raw = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw)
    fields = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "vocab_size": 16, **config}
    (folder / "config.json").write_text(json.dumps(fields))
    (folder / "tokenizer.json").write_text("{}")
    return folder


def test_a_whole_folder_is_usable_and_measured(cli: Cli, tmp_path: Path) -> None:
    folder = _saved(tmp_path / "m")
    report = json.loads(cli("models", folder, "--json").out)
    assert (report["architecture"], report["tried"], report["usable"], report["missing"]) == ("Llama", True, True, [])
    assert (report["n_layers"], report["width"], report["vocab"], report["context"]) == (2, 8, 16, None)
    assert (report["n_params"], report["dtype"]) == (10, "BF16")
    assert report["bytes"] == (folder / "model.safetensors").stat().st_size


@pytest.mark.parametrize(("file", "need"), [("model.safetensors", "weights"), ("tokenizer.json", "tokenizer")])
def test_a_folder_says_what_it_lacks(file: str, need: str, cli: Cli, tmp_path: Path) -> None:
    folder = _saved(tmp_path / "m")
    (folder / file).unlink()
    report = json.loads(cli("models", folder, "--json").out)
    assert (report["usable"], report["missing"]) == (False, [need])
    assert f"missing       {need}" in cli("models", folder).out


def test_an_empty_folder_lacks_everything(cli: Cli, tmp_path: Path) -> None:
    assert json.loads(cli("models", tmp_path, "--json").out)["missing"] == list(models.NEEDS)


def test_a_family_that_was_not_tried_says_so(cli: Cli, tmp_path: Path) -> None:
    assert "not among the tried families" in cli("models", _saved(tmp_path / "m", model_type="falcon")).out


@pytest.mark.parametrize("name", ["./none", "a/b/c", "/no/such"])
def test_a_path_that_is_no_folder_is_refused(name: str, cli: Cli) -> None:
    assert cli("models", name).line == f"no model folder '{name}'; a hub id has the form owner/name"


def test_a_file_is_no_model(cli: Cli) -> None:
    assert "is a file and no GGUF; give the folder that holds its config.json" in cli("models", __file__).line


def test_broken_files_are_one_line_each(cli: Cli, tmp_path: Path) -> None:
    folder = _saved(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"\xff" * 4)
    assert "model.safetensors is no safetensors file, or is cut short" in cli("models", folder).line
    (folder / "config.json").write_text("[]")
    assert "config.json is no model configuration" in cli("models", folder).line


def _header(folder: Path, header: bytes) -> Path:
    """The folder with another header in its safetensors file."""
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return folder


HEADERS = {
    b"null": "its header is null, not an object",
    b"[]": "its header is a list, not an object",
    b"7": "its header is a number, not an object",
    b"[" * 100_000: "its header is nested without end",
    b'{"a": null}': "tensor 'a' is null, not an object",
    b'{"a": [1]}': "tensor 'a' is a list, not an object",
    b'{"a": {"dtype": "F32"}}': "tensor 'a' has no shape",
    b'{"a": {"dtype": "F32", "shape": "x"}}': "tensor 'a' has the shape 'x'",
    b'{"a": {"dtype": "F32", "shape": [2, "x"]}}': "tensor 'a' has the shape [2, 'x']",
    b'{"a": {"dtype": "F32", "shape": [2, -1]}}': "tensor 'a' has the shape [2, -1]",
    b'{"a": {"dtype": "F32", "shape": [1e400]}}': "tensor 'a' has the shape [inf]",
    b'{"a": {"shape": [2]}}': "tensor 'a' has no dtype",
    b'{"a": {"dtype": ["F32"], "shape": [2]}}': "tensor 'a' has no dtype",
    b"\xff\xfe": "is no safetensors file",
    b'{"' + b"n" * 5000 + b'": 1}': "(5000 characters)' is a number, not an object",
}


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
@pytest.mark.parametrize("command", ["models", "tui", "web", "run"])
def test_headers_that_are_none_are_one_line_everywhere(command: str, header: bytes, cli: Cli, tmp_path: Path) -> None:
    folder = _header(_saved(tmp_path / "m"), header)
    named = ["models", folder] if command == "models" else [command, "--target", folder, "--method", "ar"]
    line = cli(*named, *(["--prompt", "x"] if command == "run" else [])).line
    assert HEADERS[header] in line
    assert "model.safetensors" in line


CONFIGS = {
    "[" * 100_000: "nested without end",
    '{"a": ' * 200 + "1" + "}" * 200: "nested more than 64 deep",
    '{"model_type": "llama", "text_config": "x"}': "its text_config is a string, not an object",
    '{"model_type": "llama", "text_config": [1]}': "its text_config is a list, not an object",
    '{"model_type": ["llama"]}': "it names no model_type",
    "{}": "it names no model_type",
    "null": "it is null, not an object",
    '{"model_type": "llama", "num_hidden_layers": 0}': "num_hidden_layers is 0; give a whole number",
    '{"model_type": "llama", "text_config": {"vocab_size": "x"}}': "vocab_size is 'x'; give a whole number",
    '{"model_type": "\\u001b[2J", "hidden_size": -1}': "hidden_size is -1",
    '{"model_type": "llama", "n_layer": 1e999}': "n_layer is inf",
}


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
@pytest.mark.parametrize("command", ["models", "tui", "web"])
def test_configs_that_are_none_are_one_line_everywhere(command: str, config: str, cli: Cli, tmp_path: Path) -> None:
    folder = _saved(tmp_path / "m")
    (folder / "config.json").write_text(config)
    line = cli(*(["models", folder] if command == "models" else [command, "--target", folder, "--method", "ar"])).line
    assert CONFIGS[config] in line
    assert "m/config.json" in line


@pytest.mark.parametrize("command", ["models", "tui", "web", "run"])
def test_what_is_no_file_is_not_waited_for(command: str, cli: Cli, tmp_path: Path) -> None:
    """A pipe, a folder, a link to nothing, under the name of the weights."""
    named = ["models"] if command == "models" else [command, "--prompt", "x", "--method", "ar", "--target"]
    for kind, words in (
        ("pipe", "is a pipe, socket or device"),
        ("folder", "is a folder, not a safetensors file"),
        ("link", "is a link to nothing, not a safetensors file"),
    ):
        folder = _saved(tmp_path / kind)
        path = folder / "more.safetensors"
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("nowhere")
        line = cli(*named, folder).line
        assert f"'more.safetensors' in '{folder}' {words}" in line


@pytest.mark.parametrize("command", ["models", "tui", "web", "run"])
@pytest.mark.parametrize("option", ["--target", "--draft"])
def test_names_the_system_refuses_are_one_line_everywhere(
    command: str, option: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over 255 bytes, a loop of links, a folder that may not be searched (acted: no mode stops root)."""
    other = (
        ["--target", _saved(tmp_path / "t", hidden_size=4, vocab_size=4)]
        if option == "--draft" and command != "run"
        else []
    )
    named = ["models"] if command == "models" else [command, "--prompt", "x", *other, option]
    line = cli(*named, "ä" * 200).line
    assert "File name too long" in line
    assert len(line) < 300
    loop = tmp_path / "ln_loop"
    loop.symlink_to(loop)
    line = cli(*named, loop).line
    assert "cannot be looked at" in line
    assert "did you mean" not in line

    stat = os.stat

    def refuse(name: object, **rest: object) -> os.stat_result:
        if str(name).endswith("shut/m"):
            raise PermissionError(13, "Permission denied", str(name))
        return stat(name, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr("specviz.model_folder.os.stat", refuse)
    assert "Permission denied" in cli(*named, tmp_path / "shut" / "m").line


LONG = "n" * 300


@pytest.mark.parametrize(
    "words",
    [
        ("models", "convert", LONG),
        ("lab", "bench", "--html", f"{LONG}/x.html"),
        ("run", "--prompt", "x", "--method", "kangaroo", "--adapter", LONG),
        ("run", "--prompt", "x", "--method", "specbound", "--heads", LONG),
        ("run", "--prompt", "x", "--method", "draft_and_verify", "--skip-set", LONG),
    ],
)
def test_a_name_that_is_too_long_is_one_line_wherever_it_is_looked_up(words: tuple[str, ...], cli: Cli) -> None:
    done = cli(*words, *(["-q"] if words[0] == "run" else []))
    assert "File name too long" in done.line
    assert len(done.line) < 300


def test_a_folder_of_nearly_that_name_is_told(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no hub id is refused with it; what may be one is described with it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pair").mkdir()
    _saved(tmp_path / "pair" / "target")
    assert cli("models", "./pair/targt").line == "no model folder './pair/targt'; did you mean 'pair/target'?"
    assert "pair/target" in json.loads(cli("models", "pair/targt", "--json").out)["nearest"]
    assert "nearest" not in json.loads(cli("models", "pair/quite-another", "--json").out)


def test_a_hub_id_is_described_without_looking_it_up(cli: Cli) -> None:
    report = json.loads(cli("models", "owner/name", "--json").out)
    assert report["kind"].startswith("hub id")


def test_the_card_is_shown_in_lines(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = tmp_path / "models" / "pair"
    pair.mkdir(parents=True)
    _saved(pair / "target")
    _saved(pair / "draft")
    card = {"speed_ratio": 5.5, "domains": {"sums": {"chain_acceptance": 0.7}}, "curve": [[1, 2]], "command": "x" * 200}
    (pair / "card.json").write_text(json.dumps(card))
    monkeypatch.setattr(models, "embedded_pair", lambda: pair)
    assert json.loads(cli("models", "--json").out)["embedded"]["card"] == card
    lines = [line.split() for line in cli("models").out.splitlines()]
    assert ["speed_ratio", "5.5"] in lines
    assert ["sums", "chain_acceptance", "0.7"] in lines
    assert not [line for line in lines if line[:1] in (["curve"], ["command"])]


def test_the_embedded_pair_is_there_and_shares_its_vocabulary(cli: Cli) -> None:
    report = json.loads(cli("models", "--json").out)["embedded"]
    assert report["target"]["vocab"] == report["draft"]["vocab"]
    assert report["target"]["n_params"] > report["draft"]["n_params"]
    assert report["target"]["n_layers"] > report["draft"]["n_layers"]
    assert f"{report['target']['n_params']:,}" in cli("models").out


def test_methods_are_listed_by_what_lies_with_the_target(cli: Cli, tmp_path: Path) -> None:
    """A method whose part is not there stands apart, with the line that makes it; the part's folder brings it back."""
    folder = tmp_path / "mine"
    _saved(folder, model_type="llama")
    (folder / "tokenizer.json").write_text("{}")
    parted = {method.name for method in all_methods().values() if method.part}
    assert set(options.lacking(str(folder))) == parted
    out = cli("models", folder).out
    assert f"specviz train medusa --target {folder} --out {folder}/medusa" in out
    for part in ("medusa", "eagle3"):
        (folder / part).mkdir()
        (folder / part / "config.json").write_text("{}")
    assert set(options.lacking(str(folder))) == parted - {"medusa", "eagle3"}
    assert options.lacking(str(folder))["static_tree"].endswith(f": specviz train static-tree --target {folder}")
    (folder / "eagle3" / "static_tree.json").write_text("{}")
    assert set(options.lacking(str(folder))) == parted - {"medusa", "eagle3", "static_tree"}


def test_of_the_embedded_target_the_list_and_the_help_say_the_same(cli: Cli) -> None:
    (report,) = options.lacking().items()
    assert report == (
        "medusa",
        "not here, no set of Medusa heads of specviz's training: specviz train medusa, then give --drafter medusa",
    )
    embedded = embedded_pair() / "target"
    assert list(options.lacking(str(embedded))) == ["medusa"]  # the same target, called by its folder
    assert report[1] in cli("models").out
    assert report[1] in " ".join(cli("run", "--help").out.split())


def test_doctor_says_whether_a_kernel_can_be_built(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By what, kept where, and everything that is wrong with either."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", "gcc -m64")
    monkeypatch.setattr(shutil, "which", {"gcc": "/bin/gcc", "cc": "/bin/cc"}.get)
    report = json.loads(cli("doctor", "--json").out)["kernel"]
    kept = tmp_path / "cache" / "specviz" / "compiled"
    assert report == {"compiler": "/bin/gcc -m64", "folder": str(kept), "problems": []}
    assert "built by /bin/gcc -m64, kept in" in cli("doctor").out
    monkeypatch.setenv("CC", "nosuch")
    kept.mkdir(parents=True)
    (kept / "passes.failed").write_text("no space")
    words = " ".join(cli("doctor").out.split())
    assert "CC=nosuch: there is no such program; /bin/cc builds the kernel" in words
    assert "not built of late: no space" in words
    monkeypatch.setattr(shutil, "which", lambda name: None)
    kept.chmod(0o777)
    words = " ".join(cli("doctor").out.split())
    assert "none, so decoding takes two to five times as long" in words
    assert "no C compiler here (CC=nosuch" in words
    assert "others can write into" in words
