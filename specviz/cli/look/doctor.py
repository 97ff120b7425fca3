"""`specviz doctor`: what this machine offers, and the line that installs what is missing."""

import os
import platform
import shlex
import shutil
import sys
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from importlib.resources.abc import Traversable
from typing import Any

import click

from specviz.cli.flags import JSON, flag
from specviz.cli.printing import echo_json, echo_sections
from specviz.errors import SpecvizError
from specviz.names import GRAPHS

# Enough to know that an extra is there; the rest of it comes along.
EXTRAS: dict[str, tuple[str, ...]] = {
    "engine": ("torch", "transformers", "accelerate", "safetensors", "gguf"),
    "train": ("accelerate",),
    "lab": ("xllamacpp",),
    "tui": ("textual",),
    "web": ("streamlit", "plotly"),
    "export": ("playwright", "pillow", "pyarrow"),
    "scale": ("duckdb", "pyarrow"),
    "engines": ("xllamacpp",),
    "docs": ("mkdocs", "mkdocs-material", "mkdocstrings"),
    "dev": ("pytest", "hypothesis", "mypy", "ruff", "import-linter"),
}
BASE = ("specviz-llm", "click", "msgspec", "numpy", "platformdirs", "rich")
_MIB = 1 << 20


@click.command("doctor")
@JSON
@click.option(
    "--schema",
    is_flag=False,
    flag_value="",
    metavar="[RECORD]",
    help="Print the JSON Schema (draft 2020-12) of one record, or of any line of a trace: each is one record, told "
    "apart by its field ev. Readers ignore unknown records and fields.",
)
@flag("--list as_list", "With --schema: name every record, a line each.")
def command(as_json: bool, schema: str | None, as_list: bool) -> None:
    """Show versions, devices, memory, terminal and missing extras; with --schema what a trace consists of.

    Nothing is changed and no model is loaded. Exit code 0, also when an extra is missing.
    """
    if schema is not None:
        from specviz.cli.look.schema import print_schema

        print_schema(schema, as_list)
        return
    if as_list:
        raise SpecvizError("--list names the records of --schema; give that too")
    report = examine()
    if as_json:
        echo_json(report)
    else:
        echo_sections(_sections(report))


def examine() -> dict[str, Any]:
    """Everything `doctor` knows, as plain JSON."""
    available = devices()
    return {
        "python": {"version": platform.python_version(), "system": platform.system(), "machine": platform.machine()},
        "packages": {name: installed(name) for name in BASE},
        "extras": {name: extra(name) for name in EXTRAS},
        "devices": available,
        "kernel": kernel(),
        "lanes": lanes(available),
        "memory": memory(),
        "terminal": terminal(),
        "assets": assets(),
    }


def installed(distribution: str) -> str | None:
    """The version of an installed distribution, None when it is not there."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def extra(name: str) -> dict[str, Any]:
    """Versions of an extra's packages, and the line that installs it when one is missing."""
    versions = {package: installed(package) for package in EXTRAS[name]}
    missing = [package for package, seen in versions.items() if seen is None]
    return {
        "packages": versions,
        "missing": missing,
        "install": f"pip install 'specviz-llm[{name}]'" if missing else None,
    }


def devices() -> dict[str, Any]:
    """What torch can compute on; without torch the processor's cores alone."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    report: dict[str, Any] = {"cpu": {"cores": cores, "threads": None}, "cuda": [], "mps": False, "problem": None}
    try:
        import torch
    except ImportError as error:
        report["problem"] = "torch is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
        return report
    except OSError as error:  # a library torch was built against is missing or broken
        report["problem"] = f"torch does not load: {error}"
        return report
    report["cpu"]["threads"] = torch.get_num_threads()
    report["mps"] = torch.backends.mps.is_available()
    if torch.cuda.is_available():
        every = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
        report["cuda"] = [
            {"name": p.name, "memory_mib": p.total_memory // _MIB, "capability": f"{p.major}.{p.minor}"} for p in every
        ]
    return report


def kernel() -> dict[str, Any]:
    """What builds the kernel of a CPU, where it is kept, and what is wrong with either."""
    from specviz.engine.model.compiled.build import NoKernel, failures, find_compiler, folders, trouble

    report: dict[str, Any] = {"compiler": None, "folder": None, "problems": []}
    try:
        compiler = find_compiler()
        report["compiler"] = shlex.join(compiler.words)
        report["problems"] += [compiler.remark] if compiler.remark else []
    except NoKernel as error:
        report["problems"].append(str(error))
    for folder in folders():
        wrong = trouble(folder)
        if not wrong:
            report["folder"] = str(folder)
            report["problems"] += [
                f"not built of late: {note.read_text(encoding='utf-8')}" for note in failures(folder)
            ]
            break
        report["problems"].append(wrong)
    return report


def lanes(available: dict[str, Any]) -> list[str]:
    """The lanes that this machine could give two models (`--lanes`)."""
    places = 1 + len(available["cuda"]) + available["mps"]
    return [
        "serial",
        *["threads"] * (available["cpu"]["cores"] > 1),
        *["streams"] * bool(available["cuda"]),
        *["two_device"] * (places > 1),
    ]


def memory() -> dict[str, int | None]:
    """Total and free memory in MiB, None where the system does not say."""

    def pages(name: str) -> int | None:
        try:
            return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE") // _MIB
        except (ValueError, OSError, AttributeError):
            return None

    return {"total_mib": pages("SC_PHYS_PAGES"), "free_mib": pages("SC_AVPHYS_PAGES")}


def terminal() -> dict[str, Any]:
    """Size, colours and encoding, as Rich and Textual will see them."""
    from rich.console import Console

    size, console = shutil.get_terminal_size(), Console()
    return {
        "is_terminal": sys.stdout.isatty(),
        "columns": size.columns,
        "lines": size.lines,
        "colours": console.color_system,
        "no_color": bool(os.environ.get("NO_COLOR")),
        "encoding": sys.stdout.encoding,
        "term": os.environ.get("TERM"),
    }


def assets() -> dict[str, dict[str, int]]:
    """Bundled files by kind: how many, how many bytes."""
    root = resources.files("specviz_assets")
    sizes_by_kind = {}
    for kind in ("models", "traces", "prompts"):
        sizes = list(_sizes(root / kind))
        sizes_by_kind[kind] = {"n_files": len(sizes), "bytes": sum(sizes)}
    return sizes_by_kind


def _sizes(folder: Traversable) -> list[int]:
    if not folder.is_dir():
        return []
    sizes: list[int] = []
    for entry in folder.iterdir():
        sizes += _sizes(entry) if entry.is_dir() else [len(entry.read_bytes())]
    return sizes


def _sections(report: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """The report in words, section by section."""
    python, seen = report["python"], report["terminal"]
    colours = "off (NO_COLOR)" if seen["no_color"] else seen["colours"] or "none"
    shape = f"{seen['columns']}x{seen['lines']}" + (
        "" if seen["is_terminal"] else " assumed, standard output is no terminal"
    )
    return {
        "Versions": [
            ("python", f"{python['version']}, {python['system']} {python['machine']}"),
            *((name, seen or "not installed") for name, seen in report["packages"].items()),
        ],
        "Extras": [(name, _extra_words(report_part)) for name, report_part in report["extras"].items()],
        "Devices": [
            *_device_words(report["devices"]),
            ("lanes", ", ".join(report["lanes"])),
            *_kernel_words(report["kernel"]),
            ("CUDA", f"written, tested against a stand-in, not yet run (make gpu does); graphs off unless {GRAPHS}=on"),
        ],
        "Memory": [(name.removesuffix("_mib"), _mib(value)) for name, value in report["memory"].items()],
        "Terminal": [("size", shape), ("colours", colours), ("encoding", str(seen["encoding"]))],
        "Bundled": [
            (
                kind,
                f"{report_part['n_files']} files, {report_part['bytes'] / 1e6:.1f} MB"
                if report_part["n_files"]
                else "none",
            )
            for kind, report_part in report["assets"].items()
        ],
    }


def _kernel_words(report: dict[str, Any]) -> list[tuple[str, str]]:
    by, folder = report["compiler"], report["folder"]
    built = f"built by {by}, kept in {folder}" if by and folder else "none, so decoding takes two to five times as long"
    return [("kernel", built), *(("", problem) for problem in report["problems"])]


def _extra_words(report: dict[str, Any]) -> str:
    if report["missing"]:
        return f"missing {', '.join(report['missing'])}: {report['install']}"
    return ", ".join(f"{name} {seen}" for name, seen in report["packages"].items())


def _device_words(available: dict[str, Any]) -> list[tuple[str, str]]:
    threads = available["cpu"]["threads"]
    cores = f"{available['cpu']['cores']} cores" + (f", torch uses {threads} threads" if threads else "")
    cuda = [f"{d['name']}, {_mib(d['memory_mib'])}, capability {d['capability']}" for d in available["cuda"]]
    return [
        ("cpu", cores),
        *((f"cuda:{i}", words) for i, words in enumerate(cuda or ["none"])),
        ("mps", "available" if available["mps"] else "none"),
        *([("problem", available["problem"])] if available["problem"] else []),
    ]


def _mib(value: int | None) -> str:
    return "unknown" if value is None else f"{value / 1024:.1f} GiB"
