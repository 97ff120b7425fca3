"""Groups of actions of the screen of a run, a module each; `common/actions.py` says what a group is."""
