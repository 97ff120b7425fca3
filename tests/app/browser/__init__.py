"""Tests that need a real browser. They share one, and a server for each recording."""
