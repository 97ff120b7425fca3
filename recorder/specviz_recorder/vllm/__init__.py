"""The plugin of vLLM (`vllm.general_plugins`): loaded in every process, perhaps more than once."""

from pathlib import Path
from typing import Any

from specviz_recorder.plugin import fits, wanted
from specviz_recorder.signatures import found_at
from specviz_recorder.sink import Sink
from specviz_recorder.switch import Switch
from specviz_recorder.vllm import v1, v2
from specviz_recorder.vllm.common import card_of, wrapped

_WORKER = "vllm.v1.worker.worker_base:WorkerWrapperBase"
_RANK = "vllm.distributed.parallel_state:get_tensor_model_parallel_rank"
# A runner is known by the module that defines it, so that none is imported for looking.
_RUNNERS: dict[str, tuple[list[str], Any]] = {
    "vllm.v1.worker.gpu_model_runner": (v1.SIGNATURES, v1.FirstRunner),
    "vllm.v1.worker.gpu.model_runner": (v2.SIGNATURES, v2.SecondRunner),
}
_hooks: dict[str, Any] = {}  # of this process, by module of the runner


def load() -> None:
    """Wait for a model runner, if the user asked for a recording."""
    path = wanted()
    if path is not None and fits("vllm", [f"{_WORKER}.init_device", _RANK]):
        switch = Switch()
        wrapped(
            found_at(_WORKER), "init_device", switch, after=lambda arguments, *_: _runner_made(arguments["self"], path)
        )


def _runner_made(wrapper: Any, path: Path) -> None:
    """Put the hooks round the runner that a worker has made; ranks that sample the same tokens write nothing."""
    runner = wrapper.worker.model_runner
    config = runner.vllm_config
    if config.speculative_config is None or found_at(_RANK)() != 0:
        return
    home = next((base.__module__ for base in type(runner).__mro__ if base.__module__ in _RUNNERS), None)
    if home is None:
        raise ValueError(f"{type(runner).__name__} is a runner that is not known")
    signatures, hooks = _RUNNERS[home]
    if not fits("vllm", signatures):
        return
    switch = Switch()
    sink = Sink(path, lambda: card_of(config), switch)
    if home in _hooks:  # another model in the same process
        _hooks[home].sink.close()
        _hooks[home].sink = sink
    else:
        _hooks[home] = hooks(sink, switch)
