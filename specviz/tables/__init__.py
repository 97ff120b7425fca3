"""A run as tables: one of rounds, one of nodes, one of tests; rows are made as they are asked for."""

from specviz.tables.rows import TABLES, DataTable, TableColumn
from specviz.tables.write import ENDINGS, Kind, write_tables, zipped

__all__ = ["ENDINGS", "TABLES", "DataTable", "Kind", "TableColumn", "write_tables", "zipped"]
