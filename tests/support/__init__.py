"""What tests of several folders share: synthetic traces, small models, sessions, and the ends of a live run."""
