"""Folders that would run code, and folders whose weights are not all there: refused, or loaded without a random number.

The code of such a folder would write a file; `y` waits on standard input for whoever asks.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

import specviz
import specviz_lab
import specviz_train
from cli.conftest import Cli, cli  # noqa: F401 (a fixture)
from specviz import model_folder
from specviz.cli.request import check_models
from specviz.engine.model.files.loading import load, plain_model
from specviz.errors import ModelError
from specviz.events import Warn
from specviz.trace import read_events
from support.models import COMMON, build, save

YES = b"y\n" * 6


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that loads."""
    folder = tmp_path_factory.mktemp("models") / "good"
    save(build("llama"), folder)
    return folder


def copy(good: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(good, tmp_path / "spoilt"))


def changed(folder: Path, name: str = "config.json", **fields: Any) -> Path:
    """The folder with other fields in one of its JSON files."""
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return folder


def refused(folder: Path | str, role: str = "target") -> str:
    """The one line a load is refused with."""
    with pytest.raises(ModelError) as caught:
        load(str(folder), role, "cpu", "float32")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_library_is_never_allowed_to_run_code_of_a_folder() -> None:
    """Every `from_pretrained` of the package says so; left out, the library asks whoever is on standard input."""
    calls = 0
    for path in chain.from_iterable(
        Path(of.__file__).parent.rglob("*.py") for of in (specviz, specviz_train, specviz_lab)
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "from_pretrained":
                keywords = {keyword.arg: keyword.value for keyword in node.keywords}
                flag = keywords.get("trust_remote_code")
                assert isinstance(flag, ast.Constant), f"{path.name}:{node.lineno}"
                assert flag.value is False, f"{path.name}:{node.lineno}"
                calls += 1
    assert calls >= 5


# --- code in the folder


def evil(good: Path, tmp_path: Path, native: bool) -> tuple[Path, Path]:
    """A folder with code for config, model and tokenizer, and the file that any of it would write."""
    folder, written = copy(good, tmp_path), tmp_path / "written"
    (folder / "modeling_evil.py").write_text(
        f"open({str(written)!r}, 'w').close()\n"
        "from transformers import LlamaConfig as C, LlamaForCausalLM as M, PreTrainedTokenizerFast as T\n"
        "class Config(C):\n    model_type = 'evil'\n"
        "class Model(M):\n    config_class = Config\n"
        "class Tokens(T):\n    pass\n"
    )
    code = {"AutoConfig": "modeling_evil.Config", "AutoModelForCausalLM": "modeling_evil.Model"}
    changed(folder, auto_map=code, **({} if native else {"model_type": "evil", "architectures": ["Model"]}))
    tokens = {"AutoTokenizer": [None, "modeling_evil.Tokens"]}
    changed(folder, "tokenizer_config.json", auto_map=tokens, **({} if native else {"tokenizer_class": "Tokens"}))
    return folder, written


def test_run_refuses_code_of_a_folder_though_y_waits(good: Path, tmp_path: Path, cli: Cli) -> None:  # noqa: F811
    """One line, exit code 2, and nothing was written."""
    folder, written = evil(good, tmp_path, native=False)
    done = cli("run", "--target", folder, "--method", "ar", "--prompt", "x", "-q", stdin=YES)
    assert "brings code of its own (auto_map), which is never run here" in done.line
    assert not written.exists()


def test_the_worker_refuses_code_of_a_folder_though_y_waits(good: Path, tmp_path: Path) -> None:
    """It reads commands where the library would ask."""
    folder, written = evil(good, tmp_path, native=False)
    command = [sys.executable, "-m", "specviz.engine.run", "--target", str(folder), "--no-draft"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, input=YES, env=env, capture_output=True, timeout=300, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().count("\n") == 1
    assert b"never run here" in done.stderr
    assert not written.exists()


@pytest.mark.parametrize("command", ["models", "tui", "web"])
def test_looking_at_a_folder_runs_nothing(
    command: str,
    good: Path,
    tmp_path: Path,
    cli: Cli,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither `models` nor what the front-ends check before they start a worker."""
    folder, written = evil(good, tmp_path, native=False)
    if command == "models":
        assert json.loads(cli("models", folder, "--json", stdin=YES).out)["architecture"] == "evil"
    elif command == "tui":
        assert "no terminal" in cli("tui", "--target", folder, "--method", "ar", stdin=YES).line
    else:
        monkeypatch.setattr("specviz_app.launcher.serve", lambda *_: None)
        assert cli("web", "--target", folder, "--method", "ar", "--port", "0", stdin=YES).code == 0
        check_models(str(folder), None, needs_draft=False)
    assert not written.exists()


def test_an_architecture_of_the_library_is_loaded_without_the_folder_s_code(good: Path, tmp_path: Path) -> None:
    """The weights are the model; code beside them is left where it is."""
    folder, written = evil(good, tmp_path, native=True)
    loaded = load(str(folder), "target", "cpu", "float32")
    assert type(loaded.adapter.model) is hf.LlamaForCausalLM
    assert not written.exists()


# --- weights


def rewritten(folder: Path, change: Any) -> Path:
    """The folder with other tensors."""
    tensors = load_file(folder / "model.safetensors")
    save_file(change(tensors) or tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


K_PROJ = "model.layers.1.self_attn.k_proj.weight"


def test_a_tensor_that_is_missing_is_named(good: Path, tmp_path: Path) -> None:
    """The library would fill it with random numbers, others at every start."""
    folder = rewritten(copy(good, tmp_path), lambda held: held.pop(K_PROJ) is None)
    assert f"1 of the weights of a LlamaForCausalLM are missing: '{K_PROJ}'" in refused(folder)
    assert K_PROJ in refused(folder, "draft")
    with pytest.raises(ModelError, match="are missing"):
        plain_model(str(folder), "target", torch.float32)  # what the benchmark's peers load


def test_more_layers_in_the_config_than_in_the_weights(good: Path, tmp_path: Path) -> None:
    refusal = refused(changed(copy(good, tmp_path), num_hidden_layers=4))
    assert "9 of the weights" in refusal
    assert "model.layers.3." in refusal
    assert "config.json asks for more than the weight files hold" in refusal


@pytest.mark.parametrize("name", ["num_hidden_layers", "vocab_size", "intermediate_size", "num_key_value_heads"])
def test_a_number_far_beyond_the_weights_is_refused_before_it_is_built(name: str, good: Path, tmp_path: Path) -> None:
    refusal = refused(changed(copy(good, tmp_path), **{name: 10**9}))
    assert f"config.json: {name} is 1,000,000,000, and the" in refusal


def test_what_an_encoder_beside_the_text_has_is_bounded_too(good: Path, tmp_path: Path) -> None:
    folder = changed(copy(good, tmp_path), vision_config={"num_hidden_layers": 10**9, "hidden_size": 4096})
    assert "num_hidden_layers is 1,000,000,000" in refused(folder)
    load(str(changed(folder, vision_config={"num_hidden_layers": 3, "hidden_size": 4096})), "target", "cpu", "float32")


def test_packed_weights_are_narrower_than_their_config(good: Path, tmp_path: Path) -> None:
    """Eight of four bits lie in a number of 32."""
    folder = changed(copy(good, tmp_path), vocab_size=8 * 260)
    rewritten(folder, lambda held: held.update({"w.qweight": torch.ones(4, 4, dtype=torch.int32)}))
    model_folder.check(folder)


def test_fewer_layers_in_the_config_than_in_the_weights(good: Path, tmp_path: Path) -> None:
    """Another model, whose text nobody's."""
    refusal = refused(changed(copy(good, tmp_path), num_hidden_layers=2))
    assert "config.json names 2 layers, and the weight files hold 1 more ('model.layers.2." in refusal


def test_a_tensor_that_the_model_has_no_place_for_is_told(good: Path, tmp_path: Path, cli: Cli) -> None:  # noqa: F811
    folder = rewritten(copy(good, tmp_path), lambda held: held.update(w_extra=torch.ones(1)))
    words = ("--method", "ar", "--prompt", "x", "--max-new-tokens", "2", "--record", tmp_path / "run")
    assert cli("run", "--target", folder, *words).code == 0
    messages = [event.message for event in read_events(tmp_path / "run") if isinstance(event, Warn)]
    assert any(
        "spoilt: a LlamaForCausalLM has no place for tensor 'w_extra': left out" in message for message in messages
    )


def test_a_file_without_any_right_tensor(good: Path, tmp_path: Path) -> None:
    folder = rewritten(copy(good, tmp_path), lambda held: {f"x.{name}": tensor for name, tensor in held.items()})
    assert "it holds 30 tensors of other names, such as 'x.lm_head.weight'" in refused(folder)


@pytest.mark.parametrize("kind", ["LlamaModel", "LlamaForSequenceClassification", "LlamaForQuestionAnswering"])
def test_a_model_without_a_language_head(kind: str, tmp_path: Path) -> None:
    """A base model's folder, a classifier's: the head would be random."""
    folder = tmp_path / kind
    with torch.random.fork_rng():
        save(getattr(hf, kind)(hf.LlamaConfig(**COMMON)), folder)
    refusal = refused(folder)
    assert ("'lm_head.weight'" if kind == "LlamaModel" else kind) in refusal
    assert "language head" in refusal


def test_a_head_that_is_tied_is_not_missing(tmp_path: Path) -> None:
    """It stands in no file, and follows from the embedding: also of a base model."""
    for kind in ("LlamaModel", "LlamaForCausalLM"):
        with torch.random.fork_rng():
            save(getattr(hf, kind)(hf.LlamaConfig(**{**COMMON, "tie_word_embeddings": True})), tmp_path / kind)
        model = load(str(tmp_path / kind), "target", "cpu", "float32").adapter.model
        assert torch.equal(model.lm_head.weight, model.model.embed_tokens.weight)


@pytest.mark.parametrize(
    ("dtype", "word"), [(torch.int8, "I8"), (torch.bool, "BOOL"), (torch.int64, "I64"), (torch.complex64, "C64")]
)
@pytest.mark.parametrize("name", [K_PROJ, "model.norm.weight"])
def test_weights_that_are_no_numbers_with_a_point(
    dtype: torch.dtype, word: str, name: str, good: Path, tmp_path: Path
) -> None:
    """Quantised by somebody, and config.json does not say how."""
    folder = rewritten(copy(good, tmp_path), lambda held: held.update({name: (held[name] * 50).to(dtype)}))
    assert f"tensor '{name}' is stored as {word}" in refused(folder)


def test_a_shape_that_does_not_fit_is_named_in_one_line(good: Path, tmp_path: Path) -> None:
    """The library says: "For details look at the above report!"."""
    refusal = refused(changed(copy(good, tmp_path), intermediate_size=64))
    assert "is [32, 48], config.json makes it [32, 64]" in refusal
    assert "above report" not in refusal


def test_buffers_of_other_types_are_no_weights(tmp_path: Path) -> None:
    """Old GPT-2 files carry their causal masks as truth values."""
    folder = Path(save(build("gpt2"), tmp_path / "gpt2"))
    mask = {f"transformer.h.{k}.attn.bias": torch.ones(1, 1, 192, 192, dtype=torch.bool) for k in range(3)}
    rewritten(folder, lambda held: held.update(mask))
    load(str(folder), "target", "cpu", "float32")


def test_an_adapter_beside_full_weights_is_not_left_out_in_silence(good: Path, tmp_path: Path) -> None:
    """Whether the library applies it depends on what else is installed."""
    folder = copy(good, tmp_path)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"]}))
    save_file({"base_model.model.x.lora_A.weight": torch.ones(4, 32)}, folder / "adapter_model.safetensors")
    assert "holds an adapter (adapter_config.json) beside a model" in refused(folder)
    (folder / "config.json").unlink()
    assert "it is an adapter alone: merge it into its model first" in refused(folder)


@pytest.mark.parametrize("name", [K_PROJ, "model.norm.weight", "model.embed_tokens.weight"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_named(name: str, value: float, good: Path, tmp_path: Path) -> None:
    """Also where the library's attention makes zeros of them, and only ours shows it."""
    folder = rewritten(copy(good, tmp_path), lambda held: held[name][..., 3].fill_(value) is None)
    assert f"the weights are damaged: tensor '{name}' holds NaN or infinite numbers" in refused(folder)


# --- configs and files


@pytest.mark.parametrize("layers", [0, -2, "two", 2.5, True])
def test_a_number_of_layers_that_is_none(layers: Any, good: Path, tmp_path: Path) -> None:
    refusal = refused(changed(copy(good, tmp_path), num_hidden_layers=layers))
    assert f"num_hidden_layers is {layers!r}; give a whole number of at least 1" in refusal


@pytest.mark.parametrize("ends", ["x", [0, [1]], 1.5, True, {}])
def test_an_end_of_text_that_is_no_token(ends: Any, good: Path, tmp_path: Path) -> None:
    config = refused(changed(copy(good, tmp_path), "generation_config.json", eos_token_id=ends))
    assert f"generation_config.json: eos_token_id is {ends!r}; give a token's id, or a list of ids" in config


@pytest.mark.parametrize("index", [[1], {}, {"weight_map": [1]}, {"weight_map": {"lm_head.weight": 5}}])
def test_an_index_of_another_shape(index: Any, good: Path, tmp_path: Path) -> None:
    folder = copy(good, tmp_path)
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model.safetensors.index.json" in refused(folder)


@pytest.mark.parametrize(
    "settings", [{"hidden_act": "nosuch"}, {"rope_parameters": {"rope_type": "nosuch", "rope_theta": 1e4}}]
)
def test_what_the_library_does_not_know_is_no_bare_word(settings: Any, good: Path, tmp_path: Path) -> None:
    refusal = refused(changed(copy(good, tmp_path), **settings))
    assert "a value in its JSON files is none that the library knows (KeyError: 'nosuch')" in refusal


def test_a_gguf_file_in_a_folder_and_one_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"")
    assert f"give the GGUF file itself: {tmp_path / 'model.gguf'}" in refused(tmp_path)
    assert "this file is not GGUF" in refused(tmp_path / "model.gguf")


@pytest.mark.parametrize("context", [0, -1, 1])
def test_a_context_that_holds_no_prompt(context: int, good: Path, tmp_path: Path, cli: Cli) -> None:  # noqa: F811
    folder = changed(copy(good, tmp_path), max_position_embeddings=context)
    line = cli("run", "--target", folder, "--method", "ar", "--prompt", "x", "-q").line
    assert "shorten it to at most" not in line
    assert ("max_position_embeddings is" if context < 1 else "context holds 1 token") in line


def test_a_config_nested_without_end(good: Path, tmp_path: Path) -> None:
    folder = copy(good, tmp_path)
    for depth, word in ((100_000, "nested without end"), (500, "nested more than 64 deep")):
        (folder / "config.json").write_text('{"model_type": "llama", "a": ' + "[" * depth + "]" * depth + "}")
        assert word in refused(folder)


def test_a_pipe_in_place_of_a_file_is_not_waited_for(good: Path, tmp_path: Path) -> None:
    for name in ("model.safetensors", "config.json", "tokenizer.json", "generation_config.json"):
        folder = Path(shutil.copytree(good, tmp_path / name))
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert f"'{name}' in '{folder}' is a pipe, socket or device" in refused(folder)


def test_names_that_the_system_refuses(tmp_path: Path) -> None:
    assert "File name too long" in refused("x" * 300)
    assert "zero byte" in refused("a\0b")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert "cannot be looked at" in refused(loop)


def test_folders_that_may_not_be_looked_into(monkeypatch: pytest.MonkeyPatch, good: Path) -> None:
    """The system's refusal is acted: no mode of a folder stops root, who often runs tests."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("specviz.model_folder.os.scandir", refuse)
    assert "cannot be read: Permission denied" in refused(good)
    monkeypatch.setattr("specviz.model_folder.os.stat", refuse)
    assert "cannot be looked at: Permission denied" in refused(good)
