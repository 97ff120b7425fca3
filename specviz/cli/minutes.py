"""A training time on the command line."""

import math
from typing import Any

import click


class Minutes(click.FloatRange):
    """A finite time: neither nan nor inf ever ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is no time in minutes", param, ctx)
        return found
