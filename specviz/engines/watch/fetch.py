"""The counters of a server as text, and its slots where it has no counters."""

from specviz.engines.asking import AnswerRefused, ServerError, ask, read_whole, server_address

MOST_BYTES = 16 << 20
_SECONDS = 5.0


class NoCounters(ServerError):
    """It is a server, and shows no counters."""


def metrics_address(raw: str) -> str:
    """Where the counters are. Raises ServerError."""
    address = server_address(raw)
    return address if address.endswith("/metrics") else f"{address}/metrics"


def fetch(address: str, key: str | None = None, seconds: float = _SECONDS) -> str:
    """The text at that address. Raises ServerError with what to do, NoCounters where the server has no such page."""
    try:
        with ask(address, key, seconds) as answer:
            body = read_whole(answer, address, MOST_BYTES, seconds)
    except AnswerRefused as error:
        if error.code not in (404, 501):
            raise
        raise NoCounters(
            f"{address} has no counters ({error.code}): llama.cpp shows them with --metrics, SGLang with "
            "--enable-metrics, vLLM unless --disable-log-stats is set"
        ) from None
    if len(body) > MOST_BYTES:
        raise ServerError(f"{address} answers with more than {MOST_BYTES >> 20} MB: those are no counters")
    return body.decode("utf-8", "replace")
