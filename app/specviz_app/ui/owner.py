"""Who may command the core: everybody, where only this machine reaches the server; else who opened the address with the
key in it, which the server printed. Others watch.
"""

import secrets

import streamlit as st

from specviz.errors import SpecvizError
from specviz_app.server.server import ONLY_OWNER, Server, current
from specviz_app.ui import address

_KEY = "key"  # in the address
_HELD = "owner-key"  # in the session's state, so that the address can be handed on without it


def take_key() -> None:
    """Out of the address, before anything else of the page is made."""
    if key := address.asks(_KEY):
        st.session_state[_HELD] = key
        address.forget(_KEY)


def owns(server: Server) -> bool:
    """Whether this tab may command the core."""
    if not server.shared:
        return True
    return secrets.compare_digest(str(st.session_state.get(_HELD, "")).encode(), server.owner.encode())


def command_token(server: Server) -> str:
    """What a page's own script commands with; nothing for who only watches."""
    return server.owner if owns(server) else ""


def must_own() -> None:
    """For a callback that asks something of the core. Raises SpecvizError for who only watches."""
    if not owns(current()):
        raise SpecvizError(ONLY_OWNER)
