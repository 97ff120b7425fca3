"""The processes of one training run, as `accelerate launch` (or torchrun) starts them: one, or several that share it.

Every process trains on windows of its own and gradients are averaged, so all hold the same weights; the first alone
writes files and talks. Several processes need accelerate, which finds the device and joins them; one process does not
ask for it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from specviz.errors import MissingExtra, SpecvizError

_LAUNCHED = "ACCELERATE_MIXED_PRECISION"  # set by `accelerate launch`, whatever it launches


@dataclass(frozen=True, slots=True)
class Workers:
    """Which process this is, of how many; `device` as the launcher chose it, None where nobody launched anything."""

    rank: int = 0
    count: int = 1
    device: str | None = None

    @property
    def main(self) -> bool:
        """Whether this is the process that writes and talks."""
        return self.rank == 0

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Let the main process do something before the others, who find it done."""
        if not self.main:
            self.wait()
        yield
        if self.main:
            self.wait()

    def wait(self) -> None:
        """Until all are here."""
        if self.count > 1:
            torch.distributed.barrier()

    def average(self, values: Tensor) -> Tensor:
        """The mean of `values`, of any shape, over processes, in place."""
        if self.count > 1:
            torch.distributed.all_reduce(values)
            values /= self.count
        return values

    def average_gradients(self, network: nn.Module) -> None:
        """Give every process the mean of all gradients; a weight that none reached has none."""
        if self.count == 1:
            return
        for parameter in network.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            self.average(parameter.grad)

    def same(self, network: nn.Module) -> None:
        """Give every process the weights of the first."""
        if self.count > 1:
            for tensor in network.state_dict().values():
                torch.distributed.broadcast(tensor, 0)

    def together(self, seconds: float, ended: bool) -> tuple[float, bool]:
        """The longest time spent, and whether any process is to end: what all must agree on to stay in step."""
        if self.count == 1:
            return seconds, ended
        values = torch.tensor([seconds, float(ended)], dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(values, torch.distributed.ReduceOp.MAX)
        return float(values[0]), bool(values[1])

    def leave(self) -> None:
        """End the common part of the work: what follows is done by each alone."""
        if self.count > 1:
            self.wait()
            torch.distributed.destroy_process_group()


def join(device: str | None) -> Workers:
    """The processes this one was started with. Raises SpecvizError, and MissingExtra where accelerate is lacking.

    `device`: what the user asked for; several processes can be asked for a kind of device alone.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1 and _LAUNCHED not in os.environ:
        return Workers()
    if count > 1 and device is not None and ":" in device:
        raise SpecvizError(f"--device {device}: {count} processes cannot share it; leave --device to the launcher")
    try:
        from accelerate import PartialState
    except ModuleNotFoundError as error:
        raise MissingExtra("engine", "training under accelerate launch or torchrun") from error
    on_cpu = (
        device == "cpu"
        or os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true")
        or not torch.accelerator.is_available()
    )
    state = PartialState(cpu=on_cpu)
    if state.num_processes < count:
        raise SpecvizError(f"{count} processes were started, and accelerate joins {state.num_processes} of them")
    return Workers(state.process_index, state.num_processes, device or str(state.device))


def launched_alone() -> bool:
    """Whether accelerate was asked for several processes and started one, as it does on CPUs without mpirun."""
    return _LAUNCHED in os.environ and "MASTER_PORT" in os.environ and "WORLD_SIZE" not in os.environ


def asked_precision() -> str | None:
    """What `accelerate launch --mixed_precision` asked for. Raises SpecvizError for what is not done here."""
    asked = os.environ.get(_LAUNCHED, "no")
    if asked not in ("no", "bf16"):
        raise SpecvizError(f"--mixed_precision {asked}: drafters are trained in bf16 or no mixed precision")
    return None if asked == "no" else asked
