"""The card of a folder of Parquet tables: with it the folder is a data set of Hugging Face's `datasets`, one
configuration a table, for tables of one folder have unlike columns.
"""

from collections.abc import Sequence

from specviz.tables.rows import DataTable

CARD = "README.md"
_WORDS = {"int": "whole number", "float": "number", "text": "text", "bool": "yes or no"}


def dataset_card(tables: Sequence[DataTable], narrow: bool = False) -> str:
    """The card of these tables: what is loaded by which name, and what every column holds."""
    lines = ["---", "configs:"]
    for table in tables:
        lines += [f"- config_name: {table.name}", f"  data_files: {table.name}.parquet"]
        lines += ["  default: true"] if table.name == "rounds" else []
    lines += ["---", "", "# A recording of speculative decoding", ""]
    lines += ['Tables made by specviz. With `datasets`: `load_dataset("path/to/this/folder", "rounds")`.', ""]
    for table in tables:
        lines += [f"## {table.name}", "", "| column | | |", "|---|---|---|"]
        for column in table.columns:
            if not narrow or column.name in table.narrow:
                lines.append(f"| {column.name} | {_WORDS[column.kind]} | {column.help.replace('|', '&#124;')} |")
        lines.append("")
    return "\n".join(lines)
