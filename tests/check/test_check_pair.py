"""`specviz check`: every fault is found where it was planted, and a healthy pair has none."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from cli.conftest import (
    Cli,
    cli,  # noqa: F401 (a fixture)
)
from specviz.check import ModelSide, check_pair, kind_of_draft, parse_serve, read_side
from specviz.check.findings import FAULTS
from specviz.check.kinds import KINDS as ALL_KINDS
from specviz.check.known import known_facts, known_of_counts

V, WIDTH = 12, 8


class Made:
    """A model folder in memory: parts are changed, then it is written."""

    def __init__(self, layers: int, *, head: bool = False) -> None:
        self.config: dict[str, Any] = {
            "architectures": ["LlamaForCausalLM"],
            "vocab_size": V,
            "hidden_size": WIDTH,
            "num_hidden_layers": layers,
            "max_position_embeddings": 64,
            "eos_token_id": 0,
            "torch_dtype": "float32",
            "tie_word_embeddings": False,
        }
        self.tokens: dict[str, int] = {f"t{k}": k for k in range(V)}
        self.tokenizer: dict[str, Any] = {"chat_template": "{{ messages }}", "add_bos_token": False}
        self.tensors: dict[str, np.ndarray[Any, Any]] = {
            f"model.layers.{k}.mlp.weight": np.zeros((WIDTH, WIDTH), np.float32) for k in range(layers)
        }
        self.tensors["lm_head.weight"] = np.zeros((V, WIDTH), np.float32)
        self.index: dict[str, str] = {}
        if head:
            self.tokens, self.tokenizer = {}, {}
            self.config |= {
                "draft_vocab_size": 4,
                "eagle_aux_hidden_state_layer_ids": [1, 3, 6],
                "speculators_config": {
                    "algorithm": "a",
                    "proposal_methods": [{"speculative_tokens": 3}],
                    "verifier": {"name_or_path": "some/target", "architectures": ["LlamaForCausalLM"]},
                },
            }
            self.tensors |= {
                "fc.weight": np.zeros((WIDTH, 3 * WIDTH), np.float32),
                "d2t": np.array([0, 1, 2, 3], np.int64),
                "lm_head.weight": np.zeros((4, WIDTH), np.float32),
            }

    def write(self, folder: Path) -> Path:
        folder.mkdir()
        _json(folder / "config.json", self.config)
        if self.tokens:
            _json(folder / "tokenizer.json", {"model": {"vocab": self.tokens}})
            _json(folder / "tokenizer_config.json", self.tokenizer)
        if self.index:
            _json(folder / "model.safetensors.index.json", {"weight_map": self.index})
        entries, data = {}, b""
        for name, value in self.tensors.items():
            kind = {"float32": "F32", "int64": "I64"}[value.dtype.name]
            entries[name] = {
                "dtype": kind,
                "shape": list(value.shape),
                "data_offsets": [len(data), len(data) + value.nbytes],
            }
            data += value.tobytes()
        if self.tensors:
            raw = json.dumps(entries).encode()
            (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw)) + raw + data)
        return folder


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def _codes(tmp_path: Path, head: bool, plant: Callable[[Made, Made], object] | None = None) -> dict[str, str]:
    target, draft = Made(8), Made(1, head=head)
    if plant is not None:
        plant(target, draft)
    sides = [read_side(str(folders.write(tmp_path / name))) for folders, name in ((target, "target"), (draft, "draft"))]
    return {finding.code: finding.severity for finding in check_pair(*sides)}


def _spec(draft: Made, **changes: Any) -> None:
    draft.config["speculators_config"] |= changes


def _block(draft: Made, **options: Any) -> None:
    """A drafter that fills masked places."""
    del draft.config["speculators_config"]
    draft.config |= {"block_size": 4, **options}


def _tensor(draft: Made, name: str, value: Any) -> None:
    draft.tensors[name] = np.asarray(value)


# (what a check says, how grave it is, whether the draft is a head, what was planted)
PLANTED: tuple[tuple[str, str, bool, Callable[[Made, Made], object]], ...] = (
    ("tokenizer-differs", "error", False, lambda t, d: d.tokens.update(t3=4, t4=3)),
    ("tokenizer-longer", "warning", False, lambda t, d: d.tokens.pop("t11")),
    ("tokenizer-missing", "note", False, lambda t, d: d.tokens.clear()),
    ("tokenizer-missing", "warning", False, lambda t, d: t.tokens.clear()),
    ("rows-too-few", "error", False, lambda t, d: d.config.update(vocab_size=V - 1)),
    ("padding-differs", "warning", False, lambda t, d: t.config.update(vocab_size=V + 4)),
    ("eos-differs", "warning", False, lambda t, d: d.config.update(eos_token_id=[0, 1])),
    ("template-differs", "warning", False, lambda t, d: d.tokenizer.update(chat_template="other")),
    ("template-missing", "note", False, lambda t, d: d.tokenizer.pop("chat_template")),
    ("prompt-differs", "warning", False, lambda t, d: d.tokenizer.update(add_bos_token=True)),
    ("layers-odd", "error", True, lambda t, d: d.config.update(eagle_aux_hidden_state_layer_ids="1,3,6")),
    ("layers-unnamed", "warning", True, lambda t, d: d.config.pop("eagle_aux_hidden_state_layer_ids")),
    ("layers-outside", "error", True, lambda t, d: d.config.update(eagle_aux_hidden_state_layer_ids=[1, 3, 40])),
    ("layers-unsorted", "warning", True, lambda t, d: d.config.update(eagle_aux_hidden_state_layer_ids=[3, 1, 6])),
    ("layers-unusual", "note", True, lambda t, d: d.config.update(eagle_aux_hidden_state_layer_ids=[1, 2, 7])),
    ("layers-count", "error", True, lambda t, d: d.config.update(eagle_aux_hidden_state_layer_ids=[1])),
    ("width-differs", "error", True, lambda t, d: _tensor(d, "fc.weight", np.zeros((8, 20), np.float32))),
    ("head-rows", "error", True, lambda t, d: _tensor(d, "lm_head.weight", np.zeros((5, 8), np.float32))),
    ("d2t-missing", "error", True, lambda t, d: d.tensors.pop("d2t")),
    ("d2t-size", "error", True, lambda t, d: _tensor(d, "d2t", np.array([0, 1, 2], np.int64))),
    ("d2t-kind", "error", True, lambda t, d: _tensor(d, "d2t", np.zeros(4, np.float32))),
    ("d2t-outside", "error", True, lambda t, d: _tensor(d, "d2t", np.array([0, 1, 2, 9], np.int64))),
    ("d2t-twice", "error", True, lambda t, d: _tensor(d, "d2t", np.array([1, 0, 2, 3], np.int64))),
    ("d2t-zero", "warning", True, lambda t, d: _tensor(d, "d2t", np.zeros(4, np.int64))),
    ("speculators-odd", "error", True, lambda t, d: d.config.update(speculators_config=[1])),
    ("speculators-lacks", "error", True, lambda t, d: _spec(d, algorithm="")),
    ("verifier-differs", "error", True, lambda t, d: t.config.update(architectures=["Qwen3ForCausalLM"])),
    ("verifier-named", "note", True, lambda t, d: _spec(d, verifier={"name_or_path": "some/other-model"})),
    ("length-unnamed", "warning", True, lambda t, d: _spec(d, proposal_methods=[{"greedy": True}])),
    ("target-layers", "error", True, lambda t, d: d.config.update(num_target_layers=36)),
    ("mask-missing", "error", True, lambda t, d: _block(d)),
    ("mask-outside", "error", True, lambda t, d: _block(d, mask_token_id=V)),
    ("length-beyond", "warning", True, lambda t, d: d.config.update(block_size=2)),
    ("shard-missing", "error", False, lambda t, d: t.index.update({"a": "model-00002.safetensors"})),
    ("tensor-missing", "error", False, lambda t, d: d.index.update({"a": "model.safetensors"})),
    ("no-weights", "error", False, lambda t, d: d.tensors.clear()),
    ("layer-missing", "error", False, lambda t, d: t.tensors.pop("model.layers.5.mlp.weight")),
    ("layer-missing", "error", False, lambda t, d: t.config.update(num_hidden_layers=10**12)),
    ("layer-extra", "error", False, lambda t, d: t.config.update(num_hidden_layers=7)),
    ("output-missing", "error", False, lambda t, d: t.tensors.pop("lm_head.weight")),
    ("few-bits", "warning", False, lambda t, d: d.config.update(quantization_config={"bits": 4})),
    ("layer-types", "error", False, lambda t, d: d.config.update(layer_types=["full_attention"] * 2)),
    ("window-unset", "warning", False, lambda t, d: d.config.update(layer_types=["sliding_attention"])),
    ("state-recurrent", "warning", False, lambda t, d: t.config.update(layer_types=["linear_attention"] * 8)),
    ("experts", "note", False, lambda t, d: t.config.update(num_local_experts=8)),
    ("draft-dear", "warning", False, lambda t, d: _tensor(d, "extra", np.zeros((60, WIDTH), np.float32))),
    ("dtype-differs", "note", False, lambda t, d: d.config.update(torch_dtype="bfloat16")),
    ("positions-fewer", "warning", False, lambda t, d: d.config.update(max_position_embeddings=32)),
    ("rope-differs", "note", True, lambda t, d: (t.config.update(rope_theta=1e6), d.config.update(rope_theta=1e4))),
)


@pytest.mark.parametrize("head", [False, True])
def test_a_healthy_pair_has_nothing(head: bool, tmp_path: Path) -> None:
    assert _codes(tmp_path, head) == {}


@pytest.mark.parametrize(("code", "severity", "head", "plant"), PLANTED, ids=[f"{row[0]}-{row[1]}" for row in PLANTED])
def test_what_was_planted_is_found(
    code: str, severity: str, head: bool, plant: Callable[[Made, Made], object], tmp_path: Path
) -> None:
    assert _codes(tmp_path, head, plant).get(code) == severity


def test_layers_for_other_uses_are_none_too_many(tmp_path: Path) -> None:
    """Those that predict further tokens, and those of an encoder beside the text's."""
    extra = dict.fromkeys(("model.layers.8.eh_proj.weight", "vision.layers.30.w"), np.zeros((1, 1), np.float32))

    def plant(target: Made, draft: Made) -> None:
        target.config.update(num_nextn_predict_layers=1)
        target.tensors.update(extra)

    assert _codes(tmp_path, False, plant) == {}


def test_the_first_id_that_differs_is_named_with_its_fault(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    draft = Made(1)
    draft.tokens.update(t3=4, t4=3)
    folders = Made(8).write(tmp_path / "target"), draft.write(tmp_path / "draft")
    done = cli("check", *folders)
    assert done.code == 1
    assert "id 3 is 't3' in the target and 't4' in the draft" in done.out
    findings = json.loads(cli("check", *folders, "--json").out)
    assert findings["works"] is False
    assert findings["findings"][0]["fault_text"] == FAULTS[4]


def test_warnings_end_with_0_and_one_folder_is_too_good(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    folder = Made(2).write(tmp_path / "one")
    done = cli("check", folder, folder)
    assert done.code == 0
    assert "one folder" in done.out


def test_a_target_with_mtp_layers_is_served_with_itself(tmp_path: Path) -> None:
    """By its config, by its part for text, or by the names of its tensors; a drafter in it, nothing too good."""
    folders = {name: Made(2) for name in ("fields", "part", "names", "none", "headless")}
    folders["fields"].config["num_nextn_predict_layers"] = 1
    folders["part"].config["text_config"] = {"mtp_num_hidden_layers": 2}
    folders["names"].tensors["mtp.fc.weight"] = folders["names"].tensors["mtp.layers.0.mlp.weight"] = np.zeros(
        (2, 2), np.float32
    )
    folders["headless"].config["num_nextn_predict_layers"] = 1
    folders["headless"].tensors["model.layers.2.eh_proj.weight"] = np.zeros((2, 4), np.float32)
    findings = {}
    for name, model in folders.items():
        side = read_side(str(model.write(tmp_path / name)))
        findings[name] = {finding.code: finding.what for finding in check_pair(side, side)}
    assert [*findings["none"]] == ["same-model"]
    assert "has 1 MTP layer of its own" in findings["fields"]["own-mtp"]
    assert "has 2 MTP layers of its own" in findings["part"]["own-mtp"]
    assert [*findings["names"]] == ["own-mtp"]  # such layers share the target's head
    assert [*findings["headless"]] == ["known", "own-mtp"]  # these may bring one: what engines once made of its lack


def test_pickled_heads_are_told_and_need_no_tokenizer(tmp_path: Path) -> None:
    """As Medusa's are published."""
    heads = Made(1)
    heads.config = {"medusa_num_heads": 3, "medusa_num_layers": 1}
    heads.tokens, heads.tokenizer, heads.tensors = {}, {}, {}
    folder = heads.write(tmp_path / "heads")
    (folder / "medusa_lm_head.pt").write_bytes(b"\x80\x02.")
    findings = check_pair(read_side(str(Made(8).write(tmp_path / "target"))), read_side(str(folder)))
    assert [finding.code for finding in findings] == ["weights-pickled"]
    assert "specviz models convert" in findings[0].fix


def test_what_is_no_model_is_one_line(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    folder = Made(2).write(tmp_path / "one")
    assert "no config.json" in cli("check", folder, tmp_path).line
    assert "is a file and no GGUF" in cli("check", folder, folder / "config.json").line
    assert "has no MTP layers of its own: name its DRAFT" in cli("check", folder).line
    (folder / "config.json").write_text("[]")
    assert "a list, not an object" in cli("check", folder, folder).line


# What a draft is, and how it is served ------------------------------------------------------------------------------


def _eagle(draft: Made) -> None:
    draft.config = {"hidden_size": WIDTH, "num_hidden_layers": 1, "vocab_size": V}
    draft.tensors = {"fc.weight": np.zeros((WIDTH, 2 * WIDTH), np.float32)}


def _changed(**config: Any) -> Callable[[Made], None]:
    return lambda draft: draft.config.update(config)


KINDS: dict[str, tuple[bool, Callable[[Made], None], str]] = {
    "draft model": (False, lambda _: None, "draft_model"),
    "EAGLE-3 head": (True, lambda _: None, "eagle3"),
    "EAGLE head": (True, _eagle, "eagle"),
    "P-EAGLE head, which drafts all tokens in one call": (True, _changed(parallel_drafting=True), "eagle3"),
    "PARD draft model, which drafts all tokens in one call": (False, _changed(pard_token=3), "draft_model"),
    "set of Medusa heads": (False, _changed(medusa_num_heads=3), "medusa"),
    "DFlash block drafter": (False, _changed(dflash_config={"mask_token_id": 1}, block_size=4), "dflash"),
    "DFlash2 block drafter": (False, _changed(dflash_config={"mask_token_id": 1}, selector_rank=4), "dflash"),
    "MTP assistant that reads its target's states": (False, _changed(backbone_hidden_size=WIDTH), "mtp"),
}


def _pair(tmp_path: Path, head: bool, change: Callable[[Made], None]) -> tuple[ModelSide, ModelSide]:
    target, draft = Made(8), Made(1, head=head)
    change(draft)
    return read_side(str(target.write(tmp_path / "target"))), read_side(str(draft.write(tmp_path / "draft")))


@pytest.mark.parametrize("name", KINDS)
def test_a_draft_is_told_by_its_files_and_served_by_its_name(name: str, tmp_path: Path) -> None:
    """Its own method is not complained of; that of any other kind is an error."""
    head, change, method = KINDS[name]
    sides = _pair(tmp_path, head, change)
    assert kind_of_draft(*sides).name == name
    for other in {method for _, _, method in KINDS.values()}:
        line = f"vllm serve t --speculative-config '{json.dumps({'method': other, 'num_speculative_tokens': 2})}'"
        codes = [finding.code for finding in check_pair(*sides, parse_serve(line))]
        assert ("served-otherwise" in codes) == (other != method), other


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("python -m sglang.launch_server --speculative-algorithm EAGLE3", False),
        ("python -m sglang.launch_server --speculative-algorithm=EAGLE", True),
        ("llama-server -m t.gguf -md d.gguf --spec-type draft-eagle3", False),
        ("llama-server -m t.gguf --spec-type draft-mtp", True),
    ],
)
def test_every_engine_has_names_of_its_own(line: str, wrong: bool, tmp_path: Path) -> None:
    codes = [finding.code for finding in check_pair(*_pair(tmp_path, True, lambda _: None), parse_serve(line))]
    assert ("served-otherwise" in codes) == wrong


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vllm serve t", "nothing of speculation stands in it"),
        ("vllm serve t --speculative-confg '{}'", "did you mean '--speculative-config'"),
        ("vllm serve t --speculative-config {method:", "is no JSON"),
        ("vllm serve 't", "give the command as one quoted text"),
    ],
)
def test_a_command_that_says_nothing_is_one_line(line: str, words: str, tmp_path: Path, cli: Cli) -> None:  # noqa: F811
    folder = Made(2).write(tmp_path / "one")
    assert words in cli("check", folder, folder, "--serve", line).line


def test_more_tokens_than_mtp_layers_are_told(tmp_path: Path) -> None:
    target = Made(2)
    target.config["num_nextn_predict_layers"] = 1
    side = read_side(str(target.write(tmp_path / "target")))
    for n, is_told in ((1, False), (13, True)):
        line = f"vllm serve t --speculative-config '{json.dumps({'method': 'mtp', 'num_speculative_tokens': n})}'"
        assert ("mtp-repeats" in [finding.code for finding in check_pair(side, side, parse_serve(line))]) == is_told


def test_facts_are_dated_and_of_kinds_that_are_known() -> None:
    names = {kind.name for kind in ALL_KINDS}
    for fact in known_facts():
        assert fact["kind"] in names
        assert 1 <= fact["fault"] <= len(FAULTS)
        assert "#" in fact["thread"]
        assert len(fact["seen"]) == len("2026-11")
        assert fact["first_bad"]
        assert fact["last_bad"]


@pytest.mark.parametrize(
    ("settings", "shapes", "threads"),
    [
        ({"drafters": "ngram-mod, draft-dflash", "K/V caches": "K q8_0, V q8_0"}, {"dead"}, ["#25725"]),
        ({"drafters": "draft-dflash", "K/V caches": "K f16, V f16"}, {"dead"}, []),
        ({"drafters": "draft-dflash", "K/V caches": "K q8_0, V q8_0"}, {"cliff"}, []),
        ({"drafters": "draft-mtp", "K/V caches": "K q8_0, V q8_0"}, {"dead"}, []),
        ({}, {"dead"}, []),
    ],
)
def test_facts_are_quoted_of_counts_that_look_like_them(
    settings: dict[str, str], shapes: set[str], threads: list[str]
) -> None:
    facts = [*known_of_counts("llama.cpp", settings, shapes)]
    assert [fact["thread"].removeprefix("ggml-org/llama.cpp") for fact in facts] == threads


def _gguf(path: Path, architecture: str, tokens: list[str], **numbers: Any) -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(8)
    writer.add_embedding_length(WIDTH)
    writer.add_context_length(64)
    for name, value in numbers.items():
        key = f"{architecture}.{name.replace('__', '.')}"
        writer.add_array(key, value) if isinstance(value, list) else writer.add_uint32(key, value)
    if tokens:
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(tokens)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_two_gguf_files_are_compared_by_their_tokens(tmp_path: Path) -> None:
    words = [f"w{k}" for k in range(V)]
    target = read_side(str(_gguf(tmp_path / "target.gguf", "qwen3", words)))
    same = read_side(str(_gguf(tmp_path / "same.gguf", "qwen3", words)))
    other = read_side(str(_gguf(tmp_path / "other.gguf", "llama", [*words[:7], "other", *words[8:]])))
    assert "tokenizer-differs" not in [finding.code for finding in check_pair(target, same)]
    (findings,) = [finding for finding in check_pair(target, other) if finding.code == "tokenizer-differs"]
    assert "id 7 is 'w7' in the target and 'other' in the draft" in findings.what


def test_a_gguf_drafter_that_reads_a_layer_behind_the_last_is_told(tmp_path: Path) -> None:
    target = read_side(str(_gguf(tmp_path / "target.gguf", "qwen3", [f"w{k}" for k in range(V)])))
    for last, wrong in ((7, False), (8, True)):
        path = _gguf(
            tmp_path / f"draft{last}.gguf", "dflash", [], dflash__block_size=4, dflash__mask_token_id=1,
            dflash__target_layer_ids=[1, last],
        )  # fmt: skip
        draft = read_side(str(path))
        assert kind_of_draft(target, draft).name == "DFlash block drafter"
        assert ("layers-outside" in [finding.code for finding in check_pair(target, draft)]) == wrong


@pytest.mark.parametrize(("name", "known"), [("dflash", True), ("dflash-draft", False)])
def test_a_gguf_drafter_of_another_converter_is_told_by_its_architecture(
    tmp_path: Path, name: str, known: bool
) -> None:
    target = read_side(str(_gguf(tmp_path / "target.gguf", "qwen3", [f"w{k}" for k in range(V)])))
    path = _gguf(tmp_path / "draft.gguf", name, [], block_size=4, mask_token_id=1, target_layer_ids=[1, 7])
    codes = [finding.code for finding in check_pair(target, read_side(str(path)))]
    assert ("architecture-unknown" not in codes) == known
