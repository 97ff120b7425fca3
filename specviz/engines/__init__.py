"""Other programs that decode speculatively, and what can be read of them from outside."""
