"""The run at a glance, for what room there is beside a tree."""
