"""A door of this machine before a server: what goes through it is passed on as it is, and read on the side."""

from specviz.engines.proxy.door import ProxyDoor

__all__ = ["ProxyDoor"]
