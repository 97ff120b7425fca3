"""A run judged: its line (`judgement`), the card of another engine's run (`outside`); what stands out is of
`specviz.judge`. Both front-ends say the same.
"""
