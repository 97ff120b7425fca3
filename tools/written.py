"""Parts of the documents that come from elsewhere: `python -m tools.written` writes them, a test holds the pages to it.

* docs/benchmarks.md: of benchmarks/peers-*.json, methods-*.json and auto-*.json a table each; of tuned-bundled.json
  what `tune` finds beside the knobs of the bundled recordings; of benchmarks/log.json, where every measured number
  lies, the newest of each subject and what was tried for nothing. An entry has date, commit, machine, what was measured
  and its result; `subject` and `newest` (the line that the page shows) where it stands for a subject, and such a line
  as `negative` where it brought nothing.
* docs/screens/panels.md: the pages of the terminal's guide (F1), a heading each.
* docs/screens/terminal.md: every key of the terminal, its id and what it does.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
LOG = REPOSITORY / "benchmarks/log.json"
LOG_WORDS = """Every number that was ever measured here, with date, commit and machine, is in `benchmarks/log.json`;
below stands the newest of each subject. Times from a machine with other work on it are processor time where the entry
says so."""
CHOICES = """Left at their defaults methods size trees by what pays, and pause where nothing does; with knobs set by
hand they draft every round (`specviz lab bench --methods ar,eagle3,eagle3@d_max=1@node_budget=2,..`). Above 1 the
default is faster."""
TUNED_WORDS = """### Knobs of the bundled recordings

What `specviz tune` finds for each recording that pays, on its own prompt, beside the knobs it had
(`python -m tools.tune_bundled`, then confirmed; AMD EPYC with avx512_bf16, 1 thread, bfloat16, all other work
stopped, 2026-11-28). Both and plain decoding took turns; intervals are over repetitions of one prompt, so they tell of
this text alone. Where what was found is faster by a tenth, its interval included, the recording was made anew, unless
the last column says why not."""
BEGIN, END = "<!-- written by tools.written -->", "<!-- end -->"


Report = dict[str, Any]


def tables(kind: str, rows: Callable[[Report], list[str]]) -> str:
    """Of every kept report of a kind a table, under where and when it was measured."""
    files = sorted((REPOSITORY / "benchmarks").glob(f"{kind}-*.json"))
    reports = [(file.name, json.loads(file.read_text("utf-8"))) for file in files]
    return "\n\n".join("\n".join([_measured_at(report, name), "", *rows(report)]) for name, report in reports)


def _measured_at(report: Report, name: str) -> str:
    own = report["machine"]
    return (
        f"{own['processor']}, {own['threads']} of {own['cores']} cores, {report['settings']['dtype']}, "
        f"{report['prompts']['n_used']} prompts, {report['settings']['max_new_tokens']} tokens each, T = 0; "
        f"{report['wall'][:10]}, {own['commit']} (all of it: `benchmarks/{name}`):"
    )


def _choices(report: Report) -> list[str]:
    """What methods choose by themselves over knobs set by hand."""
    lines = ["| method | setting by hand | by itself over that |", "|---|---|---|"]
    for ratio in report["ratios"]:
        kind, by_hand, knobs = ratio["base"].partition("@")
        if by_hand:
            lines.append(f"| `{kind}` | `{knobs.replace('@', ' ')}` | {_spread(ratio['value'], *ratio['interval'])} |")
    return lines


def _spread(value: float, low: float, high: float) -> str:
    return f"{value:.2f} ({low:.2f} .. {high:.2f})"


def _arms(report: Report) -> list[str]:
    """Every arm, the fastest first, and how fast it is of our plain decoding."""
    same = {texts["arm"]: texts for texts in report["equality"]}
    of = {ratio["arm"]: (ratio["value"], *ratio["interval"]) for ratio in report["ratios"] if ratio["base"] == "ar"}
    for ratio in report["ratios"]:
        if ratio["arm"] == "ar":
            of.setdefault(ratio["base"], (1 / ratio["value"], *(1 / end for end in reversed(ratio["interval"]))))
    lines = [
        "| | tokens/s | of our plain decoding | tokens a round | kept of drafted | texts as ours |",
        "|---|---|---|---|---|---|",
    ]
    for arm in sorted(report["arms"], key=lambda arm: -arm["tokens_per_second"]["median"]):
        name, per_round, kept = arm["name"], arm["tokens_per_round"], arm["draft_acceptance_rate"]
        text = _spread(*of[name]) if name in of else "1" if name == "ar" else "—"
        equal = f"{same[name]['n_equal']} of {same[name]['n']}" if name in same else "—"
        lines.append(
            f"| `{name}` | {arm['tokens_per_second']['median']:.0f} | {text} | {per_round:.2f} | "
            f"{'—' if kept is None else f'{kept:.2f}'} | {equal} |"
        )
    return lines


def benchmarks() -> str:
    """The tables of peers and of methods, and the lab log."""
    own = f"### Every method at its defaults\n\n{tables('methods', _arms)}"
    own += f"\n\n### Chosen by itself, and set by hand\n\n{CHOICES}\n\n{tables('auto', _choices)}"
    own += f"\n\n{tuned()}"
    return f"{tables('peers', _arms)}\n\n{own}\n\n## Lab log\n\n{LOG_WORDS}\n\n{measurements()}"


def tuned() -> str:
    """A line a recording: its knobs, those that the search found, and how fast both are of plain decoding."""
    lines = [
        TUNED_WORDS,
        "",
        "| | knobs | found | of plain: as it was, as found | found over it | then |",
        "|---|---|---|---|---|---|",
    ]
    for title, one in json.loads((REPOSITORY / "benchmarks/tuned-bundled.json").read_text("utf-8")).items():
        knobs, found = (", ".join(f"{k} {v}" for k, v in one[at].items()) or "defaults" for at in ("knobs", "found"))
        low, high = one["found_over_own"]["interval"]
        speeds = f"{one['own_over_plain']['value']:.2f}, {one['found_over_plain']['value']:.2f}"
        over = f"{one['found_over_own']['value']:.2f} ({low:.2f} .. {high:.2f})"
        lines.append(f"| `{title}` | {knobs} | {found} | {speeds} | {over} | {one['then']} |")
    return "\n".join(lines)


def measurements() -> str:
    """Two tables: a subject's first entry, as the log begins with the newest, and all negative ones."""
    entries: list[dict[str, str]] = json.loads(LOG.read_text("utf-8"))
    newest: dict[str, dict[str, str]] = {}
    for entry in entries:
        if "subject" in entry:
            newest.setdefault(entry["subject"], entry)
    lines = ["| newest of | result | measured |", "|---|---|---|"]
    lines += [f"| {subject} | {entry['newest']} | {_measured(entry)} |" for subject, entry in sorted(newest.items())]
    lines += ["", "### Tried for nothing", "", "| what | measured |", "|---|---|"]
    lines += [f"| {entry['negative']} | {_measured(entry)} |" for entry in entries if "negative" in entry]
    return "\n".join(lines)


def _measured(entry: dict[str, str]) -> str:
    return f"{entry['date']}, {entry['commit']}, {entry['machine'].replace('**', '')}"


def guide() -> str:
    """A section a page of the guide, in the order in which they are turned."""
    from specviz_tui.screens.page import pages

    return "\n\n".join(f"### {title}\n\n{_markdown(text)}" for title, text in pages().values())


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_<>|#\[\]])", r"\\\1", text)


def keys() -> str:
    """A table a group of keys, in the order of the help page."""
    from specviz_tui.common.key_tables import groups, key_tables

    tables = []
    for group in groups():
        rows = [key for table in key_tables() for key in table if key.group == group]
        lines = [f"| `{key.caps}` | `{key.id}` | {_markdown(key.help)} |" for key in rows]
        tables.append("\n".join([f"| {group} | id | |", "|---|---|---|", *lines]))
    return "\n\n".join(tables)


PARTS: dict[Path, Callable[[], str]] = {
    REPOSITORY / "docs/benchmarks.md": benchmarks,
    REPOSITORY / "docs/screens/panels.md": guide,
    REPOSITORY / "docs/screens/terminal.md": keys,
}


def written(page: Path) -> str:
    """The page's text with its part written anew."""
    head, _, rest = page.read_text("utf-8").partition(BEGIN)
    return f"{head}{BEGIN}\n\n{PARTS[page]()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    for page in PARTS:
        page.write_text(written(page), encoding="utf-8")
