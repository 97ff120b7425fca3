"""Engines that are not there, for the recorder inside them."""
