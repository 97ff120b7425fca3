"""A run judged: its line (`judgement`), and rules that say what stands out (`findings`).

Both front-ends say the same.
"""
