"""A command whose help puts its many options under headings."""

from collections.abc import Mapping, Sequence
from typing import Any

import click


class SectionedCommand(click.Command):
    """`sections`: heading → names of parameters. What stands in none comes last, under `Other`."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options section by section, each in the order of its names."""
        records = {p.name: record for p in self.get_params(ctx) if (record := p.get_help_record(ctx))}
        for title, names in self.sections.items():
            found = [records.pop(name) for name in names if name in records]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
        if records:
            with formatter.section("Other"):
                formatter.write_dl(list(records.values()))
