"""MTP layers in the files of a target: on small random models of each family, against a reference without a cache."""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from specviz.cli import main
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.model.files.loading import Loaded, load
from specviz.errors import ModelError
from specviz.methods import get_method
from specviz.methods.common.missing import missing_part
from specviz.methods.mtp.drafter import Mtp
from specviz.methods.mtp.network import KIND, MtpNetwork
from specviz.methods.mtp.spec import MTP
from specviz.methods.trained.calls import BlockSlot, BlockStart, CallCache
from specviz.mtp_layers import folder_mtp, own_mtp
from specviz.verifiers import get_verifier
from support.driver import session as plain_session
from support.models import build, save

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
METHOD = get_method("mtp")
WIDTH, LAYERS = 32, 3
# by architecture: what stands before the names, those of the parts around the layer, what the layer's begin with, and
# whether the state comes first
FAMILIES: dict[str, tuple[str, dict[str, str], str, bool]] = {
    "deepseek_v3": (
        f"model.layers.{LAYERS}.",
        {"token": "enorm", "state": "hnorm", "join": "eh_proj", "out": "shared_head.norm"},
        "",
        False,
    ),
    "glm4_moe": (
        f"model.layers.{LAYERS}.",
        {"token": "enorm", "state": "hnorm", "join": "eh_proj", "out": "shared_head.norm"},
        "",
        False,
    ),
    "qwen3_next full": (
        "mtp.",
        {"token": "pre_fc_norm_embedding", "state": "pre_fc_norm_hidden", "join": "fc", "out": "norm"},
        "layers.0.",
        False,
    ),
    "qwen2": (  # MiMo is a Qwen2
        "model.mtp_layers.0.",
        {"token": "token_layernorm", "state": "hidden_layernorm", "join": "input_proj", "out": "final_layernorm"},
        "",
        True,
    ),
}
Tensors = dict[str, torch.Tensor]


def _random(shape: tuple[int, ...], rng: torch.Generator) -> torch.Tensor:
    """Norms around one, matrices that matter."""
    drawn = torch.randn(shape, generator=rng)
    return 1 + 0.3 * drawn if len(shape) == 1 else drawn * 0.25


def _as_published(name: str, tensor: torch.Tensor) -> Tensors:
    """Experts one by one."""
    group, _, kind = name.rpartition(".")
    if not group.endswith("experts"):
        return {name: tensor}
    out: Tensors = {}
    for k, expert in enumerate(tensor):
        parts = expert.chunk(2) if kind == "gate_up_proj" else (expert,)
        kinds = ("gate_proj", "up_proj") if kind == "gate_up_proj" else ("down_proj",)
        out |= {f"{group}.{k}.{n}.weight": part.contiguous() for n, part in zip(kinds, parts, strict=True)}
    return out


class Family:
    """A small random target of an architecture, saved with an MTP layer in its family's layout."""

    def __init__(self, name: str, folder: Path, **more: torch.Tensor) -> None:
        self.prefix, self.names, inner, self.state_first = FAMILIES[name]
        self.model = build(name, seed=1).requires_grad_(False)
        config = deepcopy(self.model.config)
        for field in ("layer_types", "mlp_layer_types"):
            if isinstance(getattr(config, field, None), list):
                setattr(config, field, [*getattr(config, field), "full_attention"])
        rng = torch.Generator().manual_seed(7)
        with torch.random.fork_rng():
            self.layer = type(self.model.model.layers[-1])(config, LAYERS).requires_grad_(False).eval()
        self.layer.load_state_dict({n: _random(tuple(t.shape), rng) for n, t in self.layer.state_dict().items()})
        sizes = {"join": (WIDTH, 2 * WIDTH)}
        self.parts = {part: _random(sizes.get(part, (WIDTH,)), rng) for part in self.names}
        tensors = {f"{self.prefix}{self.names[part]}.weight": tensor for part, tensor in self.parts.items()}
        for n, tensor in self.layer.state_dict().items():
            tensors |= {f"{self.prefix}{inner}{key}": part for key, part in _as_published(n, tensor).items()}
        self.folder = Path(save(self.model, folder))
        path = self.folder / "model.safetensors"
        with safe_open(path, "pt") as file:
            about = file.metadata()
        save_file(load_file(path) | tensors | {f"{self.prefix}{n}": part for n, part in more.items()}, path, about)
        if not self.prefix.startswith("mtp."):
            document = json.loads((self.folder / "config.json").read_text())
            (self.folder / "config.json").write_text(json.dumps({**document, "num_nextn_predict_layers": 1}))
        self._norm = type(self.model.model.norm)(WIDTH, eps=config.rms_norm_eps).requires_grad_(False)

    def normed(self, part: str, rows: torch.Tensor) -> torch.Tensor:
        norm = deepcopy(self._norm)
        norm.weight.data = self.parts[part]
        return norm(rows)  # type: ignore[no-any-return]

    def chain(self, tokens: list[int], n: int, head: torch.Tensor | None = None) -> tuple[list[int], torch.Tensor]:
        """n tokens drafted behind a text, and the logits of each: everything from the beginning for every token, with
        the library's layer over all rows at once and no cache."""
        base, drafted, spoken = self.model.model, [*tokens], []
        states = self.model(torch.tensor([tokens]), output_hidden_states=True).hidden_states[-1][0, :-1]
        head = self.model.lm_head.weight if head is None else head
        for _ in range(n):
            token = self.normed("token", base.embed_tokens(torch.tensor(drafted[1:])))
            state = self.normed("state", states)
            both = [state, token] if self.state_first else [token, state]
            rows = (torch.cat(both, -1) @ self.parts["join"].T)[None]
            where = torch.arange(1, len(drafted))[None]
            causal = torch.ones(len(where[0]), len(where[0]), dtype=torch.bool).tril()[None, None]
            out = self.layer(
                rows,
                attention_mask=causal,
                position_ids=where,
                position_embeddings=base.rotary_emb(rows, where),
            )
            out = out[0] if isinstance(out, tuple) else out
            last = self.normed("out", out)[0, -1]
            states = torch.cat([states, last[None]])
            spoken.append(head @ last)
            drafted.append(int(spoken[-1].argmax()))
        return drafted[len(tokens) :], torch.stack(spoken)


FamilyMaker = Callable[..., tuple[Family, Loaded]]


@pytest.fixture
def family_of(tmp_path: Path) -> FamilyMaker:
    def build_family(name: str, **more: torch.Tensor) -> tuple[Family, Loaded]:
        family = Family(name, tmp_path / "target", **more)
        return family, load(str(family.folder), "target", None, "float32")

    return build_family


def session(adapter: ModelAdapter, trained: Any, verifier: str = "walk", **knobs: Any) -> Session:
    asked = METHOD.table.knobs({"max_new_tokens": 30, **knobs})
    drafter = Mtp(trained, adapter, asked["draft_mode"])
    parts = SessionConfig(FactoryModels(adapter, None, 900), drafter, get_verifier(verifier))
    return Session(parts, PROMPT, METHOD.table, asked)


def drafted(network: MtpNetwork, adapter: ModelAdapter, family: Family, n: int) -> tuple[list[int], torch.Tensor]:
    """As the drafter does it: pairs first, then a call a token, each over what the ones before have filed."""
    states = family.model(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states[-1][0, :-1]
    calls = CallCache(network, adapter.embedding)
    for at, end in ((0, 3), (3, 4), (4, len(PROMPT) - 1)):  # a text comes in rounds
        h = calls.first(states[at:end], PROMPT[at + 1 : end + 1])
    tokens, spoken = [], []
    chain: tuple[BlockSlot, ...] = (BlockSlot(1, calls.first_row, 0),)
    for step in range(n):
        spoken.append(network.norm_and_head(h[-1:])[1][0])
        tokens.append(int(spoken[-1].argmax()))
        out, (row,) = calls.later([BlockStart(tokens[-1], step + 1, chain)])
        h = out[0]
        chain = (*chain, BlockSlot(step + 2, row, 0))
    return tokens, torch.stack(spoken)


@pytest.mark.parametrize("name", FAMILIES)
@torch.inference_mode()
def test_it_says_what_the_reference_says(name: str, family_of: FamilyMaker) -> None:
    family, target = family_of(name)
    trained = KIND.pick(target.adapter, None)
    tokens, logits = drafted(trained.network, target.adapter, family, 5)
    want, spoken = family.chain(PROMPT, 5)
    torch.testing.assert_close(logits, spoken, rtol=1e-4, atol=1e-4)
    assert tokens == want
    assert len({*want}) > 1  # it says something


@pytest.mark.parametrize("wrong", ["order", "norm"])
@torch.inference_mode()
def test_the_reference_hears_what_engines_got_wrong(
    wrong: str, family_of: FamilyMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State and token the other way round; the layer's output before its norm as the next row's state."""
    family, target = family_of("qwen2")
    network = KIND.pick(target.adapter, None).network
    if wrong == "order":
        monkeypatch.setattr(network, "state_first", False)
    else:
        out = network.norm_out
        monkeypatch.setattr(network, "norm_out", torch.nn.Identity())
        monkeypatch.setattr(network, "norm_and_head", lambda states: (states, out(states) @ network.head.T))
    _, logits = drafted(network, target.adapter, family, 3)
    _, spoken = family.chain(PROMPT, 3)
    apart = (logits - spoken).abs().amax(-1) > 1e-2
    assert apart.tolist() == ([True] * 3 if wrong == "order" else [False, True, True])


def test_a_mimo_is_loaded_as_the_qwen2_that_it_is(tmp_path: Path) -> None:
    family = Family("qwen2", tmp_path / "target")
    path = family.folder / "config.json"
    document = json.loads(path.read_text()) | {"model_type": "mimo", "architectures": ["MiMoForCausalLM"]}
    path.write_text(json.dumps(document | {"auto_map": {"AutoConfig": "configuration_mimo.MiMoConfig"}}))
    for _ in range(2):  # the library is told once
        target = load(str(family.folder), "target", None, "float32")
    trained = KIND.pick(target.adapter, None)
    with torch.inference_mode():
        assert drafted(trained.network, target.adapter, family, 4)[0] == family.chain(PROMPT, 4)[0]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("verifier", "temperature"), [("walk", 0), ("walk", 0.9), ("tokenwise", 0)])
def test_the_text_is_that_of_plain_decoding(
    name: str, verifier: str, temperature: float, family_of: FamilyMaker
) -> None:
    _, target = family_of(name)
    trained = KIND.pick(target.adapter, None)
    common = {"temperature": temperature, "seed": 3, "max_new_tokens": 30}
    run = session(target.adapter, trained, verifier, **common)
    assert run.generate() == plain_session(target.adapter, None, PROMPT, method="ar", **common).generate()


@torch.inference_mode()
def test_a_head_of_its_own_is_spoken_by_and_another_embedding_refused(family_of: FamilyMaker, tmp_path: Path) -> None:
    head = torch.randn(260, WIDTH, generator=torch.Generator().manual_seed(5))
    family, target = family_of("glm4_moe", **{"shared_head.head.weight": head})
    trained = KIND.pick(target.adapter, None)
    assert drafted(trained.network, target.adapter, family, 3)[0] == family.chain(PROMPT, 3, head)[0]
    other = Family("glm4_moe", tmp_path / "other", **{"embed_tokens.weight": head})
    with pytest.raises(ModelError, match="brings an embedding that is not the target"):
        KIND.load(other.folder, target.adapter)


def _lost(tensors: Tensors) -> None:
    del tensors[f"model.layers.{LAYERS}.self_attn.o_proj.weight"]


def _narrow(tensors: Tensors) -> None:
    name = f"model.layers.{LAYERS}.eh_proj.weight"
    tensors[name] = tensors[name][:, :WIDTH].contiguous()


def _scaled(tensors: Tensors) -> None:
    tensors[f"model.layers.{LAYERS}.eh_proj.weight_scale_inv"] = torch.ones(1)


def _odd(tensors: Tensors) -> None:
    tensors[f"model.layers.{LAYERS}.enorm.weight"][0] = float("nan")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_lost, "o_proj.weight' is missing"),
        (_narrow, r"tensor 'fuse.weight' is \[32, 32\], not \[32, 64\]"),
        (_scaled, "scale_inv' has no place"),
        (_odd, "holds NaN"),
    ],
)
def test_what_cannot_be_right_is_refused_in_a_line(
    change: Callable[[Tensors], None], words: str, family_of: FamilyMaker, tmp_path: Path
) -> None:
    _, target = family_of("glm4_moe")
    other = Family("glm4_moe", tmp_path / "other")
    path = other.folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    with pytest.raises(ModelError, match=words) as refused:
        KIND.load(other.folder, target.adapter)
    assert "\n" not in str(refused.value)


def test_a_folder_without_such_layers_is_told_as_ever(family_of: FamilyMaker, tmp_path: Path) -> None:
    _, target = family_of("qwen2")
    folder = save(build("qwen2", seed=1), tmp_path / "plain")
    with pytest.raises(ModelError, match="these are no MTP layer"):
        KIND.load(Path(folder), target.adapter)
    plain = load(folder, "target", None, "float32")
    assert missing_part(MTP, plain.adapter) is not None
    assert missing_part(MTP, target.adapter) is None
    assert plain.left_out is None
    assert target.left_out is None  # the method has a place for them


@pytest.mark.parametrize(
    ("names", "family", "n"),
    [
        (["model.layers.61.eh_proj.weight", "model.layers.61.enorm.weight"], "DeepSeek-V3", 1),
        (["model.layers.46.eh_proj.weight", "model.layers.47.eh_proj.weight"], "DeepSeek-V3", 2),
        (["mtp.fc.weight", "mtp.layers.0.mlp.gate.weight", "mtp.layers.1.mlp.gate.weight"], "Qwen3-Next", 2),
        (["model.mtp_layers.0.input_proj.weight"], "MiMo", 1),
        (["fc.weight", "eh_proj.weight", "model.layers.3.mlp.fc.weight"], None, 0),
    ],
)
def test_layouts_are_told_by_names(names: list[str], family: str | None, n: int) -> None:
    own = own_mtp(names)
    assert (None if own is None else own.layout.family) == family
    assert own is None or own.n_layers == n


def test_of_several_layers_only_the_first_is_held() -> None:
    names = ["mtp.fc.weight", "mtp.norm.weight", "mtp.layers.0.mlp.gate.weight", "mtp.layers.1.mlp.gate.weight"]
    own = own_mtp(names)
    assert own is not None
    assert [own.holds(name) for name in names] == [True, True, True, False]


def test_an_unknown_layout_is_named_as_such(
    family_of: FamilyMaker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the config there is a layer; no tensor joins a state with a token under a name that is known."""
    family = Family("glm4_moe", tmp_path / "other")
    path = family.folder / "model.safetensors"
    save_file({n.replace("eh_proj", "merge"): part for n, part in load_file(path).items()}, path, {"format": "pt"})
    reason = "in no layout that is read here (DeepSeek-V3, Qwen3-Next, MiMo are)"
    with pytest.raises(ModelError) as refused:
        KIND.pick(load(str(family.folder), "target", None, "float32").adapter, None)
    assert f"no MTP layer for the target other (the 1 of its own is {reason})" in str(refused.value)
    for command in ("models", "check"):
        assert main([command, str(family.folder)]) == 0
        assert reason in " ".join(capsys.readouterr().out.split())


def test_a_target_that_cannot_be_rolled_back_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Qwen3-Next as it is published keeps running states in three layers of four."""
    family = Family("qwen3_next full", tmp_path / "full")
    linear = Path(save(build("qwen3_next", seed=1), tmp_path / "linear"))
    tensors = {n: part for n, part in load_file(family.folder / "model.safetensors").items() if n.startswith("mtp.")}
    path = linear / "model.safetensors"
    save_file(load_file(path) | tensors, path, {"format": "pt"})
    assert main(["run", "--prompt", "hello", "--target", str(linear), "--method", "mtp"]) == 2
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("specviz:"))
    assert "'linear_attention' cannot be rolled back here" in line


def test_commands_name_them(family_of: FamilyMaker, capsys: pytest.CaptureFixture[str]) -> None:
    family, _ = family_of("glm4_moe")
    own = folder_mtp(family.folder)
    assert own is not None
    capsys.readouterr()
    assert main(["models", str(family.folder), "--json"]) == 0
    report: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    assert report["own MTP layers"] == "1, in the layout of DeepSeek-V3: --method mtp"
    assert main(["models", str(family.folder)]) == 0
    (run,) = (line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["run"])
    assert "mtp" in run.replace(",", " ").split()
    assert main(["check", str(family.folder)]) == 0
    assert "1 of the target's own" in capsys.readouterr().out
    words = [
        "run",
        "--prompt",
        "hello",
        "--target",
        str(family.folder),
        "--method",
        "mtp",
        "--max-new-tokens",
        "8",
        "--json",
    ]
    assert main(words) == 0
    assert "in the layout of DeepSeek-V3" in capsys.readouterr().out
