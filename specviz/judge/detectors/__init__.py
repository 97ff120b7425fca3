"""One module a kind of fault, found by being here: each declares its detectors."""
