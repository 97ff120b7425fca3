"""Run the tests on the lowest versions that pyproject.toml declares, and on every Python it names that is here.

    python -m tools.check_versions [--only lowest|newest] [--python 3.12 ..] [--work DIR] [--torch VERSION] [-- PYTEST]

Each environment is a venv of its own under `--work`, kept for the next time; pip installs into it, nothing else is
touched. `lowest` pins every direct requirement to its floor, on the lowest Python, so a floor that no release has fails
at once; indirect ones are pip's choice. `newest` takes constraints.txt, on each Python. torch is the one exception: of
the lowest declared version the index has a CUDA build of gigabytes, so that of constraints.txt is taken, unless
`--torch` names another and PIP_EXTRA_INDEX_URL an index with its CPU build. Without arguments for pytest all tests run.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
_REQUIREMENT = re.compile(r"^(?P<name>[A-Za-z0-9_.-]+)(\[[^]]*\])?\s*(?P<rule>>=|==)\s*(?P<version>[0-9A-Za-z.*]+)$")


def floors(project: dict[str, object]) -> dict[str, str]:
    """The lowest version of every direct requirement, extras included. Raises ValueError where there is none."""
    lowest: dict[str, str] = {}
    extras = project.get("optional-dependencies", {})
    groups = [project["dependencies"], *(extras.values() if isinstance(extras, dict) else ())]
    for line in [line for group in groups if isinstance(group, list) for line in group]:
        if line.startswith(f"{project['name']}["):
            continue
        match = _REQUIREMENT.match(line)
        if match is None:
            raise ValueError(f"'{line}' names no lowest version: write name>=version, or name==version")
        lowest[match["name"].lower()] = match["version"].removesuffix(".*")
    return lowest


def pinned(text: str, name: str) -> str:
    """A version out of constraints.txt."""
    return next(line.split("==")[1].split()[0] for line in text.splitlines() if line.startswith(f"{name}=="))


@click.command()
@click.option("--only", type=click.Choice(["lowest", "newest"]), default=None)
@click.option("--python", "pythons", multiple=True, help="versions for `newest`; default: all that are here")
@click.option(
    "--work", type=click.Path(path_type=Path), default=ROOT / "build" / "versions", show_default="build/versions"
)
@click.option("--torch", "torch_version", default=None, help="torch for `lowest`; default: that of constraints.txt")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def main(
    only: str | None, pythons: tuple[str, ...], work: Path, torch_version: str | None, args: tuple[str, ...]
) -> None:
    """Make the environments and run the tests in each; exit code 1 when one fails."""
    constraints = ROOT / "constraints.txt"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lowest = floors(project)
    declared, lowest["torch"] = lowest["torch"], torch_version or pinned(constraints.read_text("utf-8"), "torch")
    work.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    if only != "newest":
        click.echo(f"lowest declared versions; torch {lowest['torch']}, declared {declared}")
        file = work / "lowest.txt"
        file.write_text("".join(f"{name}=={version}\n" for name, version in sorted(lowest.items())))
        failed += _run("lowest", pythons[0] if pythons and only else PYTHONS[0], file, work, args)
    for version in pythons or PYTHONS if only != "lowest" else ():
        failed += _run("newest", version, constraints, work, args)
    if failed:
        raise click.ClickException(f"failed: {', '.join(failed)}")


def _run(kind: str, version: str, constraints: Path, work: Path, args: tuple[str, ...]) -> list[str]:
    """Install and test. The name of the environment when that fails; one whose Python is not here is passed over."""
    title = f"{kind}-{version}"
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        click.echo(f"{title}: no python{version} here, passed over")
        return []
    own = work / title / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", str(work / title)], check=True)
    pip = [own, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    install = [*pip, "-c", constraints, "-e", f"{ROOT}[dev]", "-e", ROOT / "assets" / "smollm2"]
    if subprocess.run(install, cwd=ROOT).returncode:
        return [f"{title} (install)"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    tests = [own, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
    done = subprocess.run(tests, cwd=ROOT, env=environment).returncode
    click.echo(f"{title}: {'passed' if not done else f'pytest says {done}'}")
    return [title] if done else []


if __name__ == "__main__":
    sys.exit(main())
