"""What a pass of a model reads and computes, and what the machine reaches: parts of the record `calibration`."""

from typing import Annotated

import msgspec
from msgspec import Meta

from specviz.events.base import Count, Ns, Positive

Size = Annotated[int, Meta(ge=0, le=2**60)]  # bytes, operations


class MachineRates(msgspec.Struct, kw_only=True, frozen=True):
    """What this machine reaches in the run's threads and dtype: gigabytes a second read and copied (both ways counted),
    1e9 operations a second of a square matrix product. The best of several tries: a busy moment takes nothing off."""

    read_gbs: Positive
    copy_gbs: Positive
    gflops: Positive
    threads: Count = 0

    @property
    def bandwidth_gbs(self) -> float:
        """The better of the two: no pass gets its weights faster."""
        return max(self.read_gbs, self.copy_gbs)


class PassWork(msgspec.Struct, kw_only=True, frozen=True):
    """What a pass reads, in bytes, and what each of its rows computes, in multiplications and additions.

    Of its layers, of its head, and of one cached position (keys and values of all layers). `bits`: stored for a weight.
    """

    layer_bytes: Size
    head_bytes: Size
    cache_bytes: Size
    layer_flops: Size
    head_flops: Size
    cache_flops: Size
    bits: Positive


class PassParts(msgspec.Struct, kw_only=True, frozen=True):
    """Nanoseconds of a target pass over one row: in its layers, in its head, and besides (rows, masks, embedding)."""

    layers: Ns
    head: Ns
    host: Ns
