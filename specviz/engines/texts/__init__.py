"""What people have of an engine: logs, tables, answers and scrapes, read line by line into histories of counts."""
