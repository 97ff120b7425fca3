"""A run as tables: one of rounds, one of nodes, one of tests; rows are made as they are asked for."""

from specviz.tables.rows import TABLES, WHOLE, DataTable, TableColumn
from specviz.tables.write import ENDINGS, Kind, arrow_schema, write_tables, zipped

__all__ = [
    "ENDINGS",
    "TABLES",
    "WHOLE",
    "DataTable",
    "Kind",
    "TableColumn",
    "arrow_schema",
    "write_tables",
    "zipped",
]
