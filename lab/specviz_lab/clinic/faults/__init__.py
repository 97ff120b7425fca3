"""One fault a file: how it is planted, and its healthy twin."""
