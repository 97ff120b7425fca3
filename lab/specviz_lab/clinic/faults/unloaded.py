"""3: a head that was never loaded. Healthy: one that is weak, but trained."""

import torch

from specviz_lab.clinic.plant import CHAIN, Bench, Part, small, texts

FAULT = 3
PLANT = "the head of the embedded EAGLE-3 is drawn anew"


def ill(bench: Bench) -> None:
    def anew(part: Part) -> None:
        head = part.tensors["head.weight"]
        part.tensors["head.weight"] = (torch.randn(head.shape, generator=bench.rng) * head.float().std()).to(head.dtype)

    bench.run(small(), texts(bench.seed, 2), "eagle3", drafter=bench.part("eagle3", anew), tokens=64, **CHAIN)


def well(bench: Bench) -> None:
    def weaker(part: Part) -> None:
        head = part.tensors["head.weight"].float()
        noise = torch.randn(head.shape, generator=bench.rng) * head.std() * 0.5
        part.tensors["head.weight"] = (head + noise).to(torch.bfloat16)

    bench.run(small(), texts(bench.seed, 2), "eagle3", drafter=bench.part("eagle3", weaker), tokens=80, **CHAIN)
