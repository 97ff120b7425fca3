"""The library's many-line reports and bars stay unsaid, and what it raises becomes one line."""

from collections.abc import Iterator
from contextlib import contextmanager

from specviz import lean, model_folder
from specviz.errors import ModelError, SpecvizError


@contextmanager
def one_line(option: str) -> Iterator[None]:
    """Turn any exception of the library into a one-line ModelError that begins with `option`."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled() and not are_progress_bars_disabled()
    logging.disable_progress_bar()  # it would mix with this program's progress lines
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    except SpecvizError:
        raise
    except Exception as error:
        text = str(error)
        if "custom code" in text or "trust_remote_code" in text:
            raise ModelError(
                f"{option}: cannot be loaded: it brings code of its own (auto_map), which is never run here; "
                "give a model whose architecture the library has"
            ) from None
        why = model_folder.line_of(error)
        if isinstance(error, LookupError | TypeError | AttributeError):  # what the code says of itself, not of the file
            why = f"a value in its JSON files is none that the library knows ({type(error).__name__}: {why})"
        raise ModelError(f"{option}: cannot be loaded: {why}") from error
    finally:
        logging.set_verbosity(before)
        if bars and not lean.own_process:
            logging.enable_progress_bar()
