"""Learning while serving: when an update of the drafter is worth its time."""
