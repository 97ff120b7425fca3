"""One module a kind of text, found by being here: each has `KINDS`."""
