"""What a pass reads and computes, counted from loaded models, and the rates that are kept on disk."""

from pathlib import Path

import pytest
import torch

from specviz.engine.decode import pass_cost
from specviz.engine.model.adapter import ModelAdapter
from specviz.events import MachineRates
from support.models import build


@pytest.mark.parametrize("tied", [True, False])
def test_every_weight_but_the_table_is_read_once(tied: bool) -> None:
    model = build("llama", tie_word_embeddings=tied)
    work = pass_cost.work_of(ModelAdapter(model))
    assert work is not None
    size = model.get_output_embeddings().weight.nelement() * 4
    layers = sum(weight.nelement() for name, weight in model.named_parameters() if "layers" in name or "norm" in name)
    assert (work.layer_bytes, work.head_bytes, work.bits) == (layers * 4, size, 32)
    assert (work.layer_flops, work.head_flops) == (2 * layers, size // 2)
    config = model.config
    wide = config.num_key_value_heads * (config.hidden_size // config.num_attention_heads)
    assert work.cache_bytes == 2 * config.num_hidden_layers * wide * 4


def test_a_mixture_of_experts_has_no_fixed_work() -> None:
    adapter = ModelAdapter(build("llama"))
    adapter.config.num_local_experts = 8
    assert pass_cost.work_of(adapter) is None


def test_rates_are_kept_and_only_get_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cpu")
    probes = [(10.0, 8.0, 50.0), (6.0, 9.0, 20.0)]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def probe(*_: object) -> MachineRates:
        read, copy, gflops = probes.pop(0)
        return MachineRates(read_gbs=read, copy_gbs=copy, gflops=gflops)

    monkeypatch.setattr(pass_cost, "_probe", probe)
    first = pass_cost.machine_rates(device, torch.float32)
    assert pass_cost.machine_rates(device, torch.float32) == first, "no second probe"
    better = pass_cost.machine_rates(device, torch.float32, again=True)
    assert (better.read_gbs, better.copy_gbs, better.gflops) == (10.0, 9.0, 50.0)
    (tmp_path / "specviz" / "machine.json").write_text("{")
    probes.append((1.0, 1.0, 1.0))
    assert pass_cost.machine_rates(device, torch.float32).read_gbs == 1.0, "a broken file is probed again"
