"""Hooks and fields of our own types are declared, with a default on the base class: none is looked for by name.

A misspelt hook that is found by `getattr` is silent; a type checker sees one that overrides a method. Source text is
searched for `hasattr`, and for `getattr` that names what it wants or has something else at hand where it is missing.
Reading fields that a tuple of names lists (`getattr(totals, name)`) is no question and is left alone.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("specviz", "tui/specviz_tui", "app/specviz_app", "train/specviz_train", "lab/specviz_lab")

# Names that only others' objects have, and why they must be asked for.
FOREIGN = {
    "arrays, which are numpy's or torch's": (
        "clamp clamp_ clone cpu detach double dtype index_select item kind new_tensor shape sub_ to"
    ),
    "models, configurations and layers of the library, which differ by family": (
        "_attn_implementation attn_logit_softcapping bias config eos_token_id final_logit_softcapping "
        "generation_config get_decoder h "
        "head_dim intermediate_size layer_types layers max_position_embeddings name_or_path num_hidden_layers "
        "num_key_value_heads quantization_config rms_norm_eps rope_parameters rope_type sliding_window "
        "variance_epsilon vocab_size weight"
    ),
    "tokenizers": "backend_tokenizer chat_template decoder",
    "what a platform or a version may lack": "ST_NOEXEC ctx sched_getaffinity waitid",
}
# Files that ask for several of such names in turn.
IN_TURN = {
    "specviz/engine/model/adapter.py": "names that families have for the same part",
    "lab/specviz_lab/bench/peers.py": "names that families have for the same part",
}


def asked(source: str) -> Iterator[tuple[int, str | None]]:
    """Line and name of every question; None: the name is in a variable."""
    for node in ast.walk(ast.parse(source)) if "attr(" in source else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            wanted = node.args[1]
            name = wanted.value if isinstance(wanted, ast.Constant) and isinstance(wanted.value, str) else None
            if node.func.id == "hasattr" or (node.func.id == "getattr" and (name is not None or len(node.args) > 2)):
                yield node.lineno, name


def test_no_hook_is_looked_for_by_name() -> None:
    foreign = {name for names in FOREIGN.values() for name in names.split()}
    n = 0
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            for line, name in asked(path.read_text("utf-8")):
                n += 1
                known = place in IN_TURN if name is None else name in foreign
                assert known, (
                    f"{place}:{line}: '{name or 'a name in a variable'}' is looked for: declare it on the type"
                )
    assert n, "nothing was searched"


def test_every_exception_is_needed() -> None:
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    sources = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}
    names = {name for source in sources.values() for _, name in asked(source)}
    for why, few in FOREIGN.items():
        assert why
        assert {*few.split()} <= names, {*few.split()} - names
    for place, why in IN_TURN.items():
        assert why
        assert any(name is None for _, name in asked(sources[place])), place


@pytest.mark.parametrize(
    "line",
    ['ahead = getattr(drafter, "meanwhile", None)', 'hasattr(drafter, "meanwhile")', "getattr(x, name, None)"],
)
def test_the_search_finds(line: str) -> None:
    assert list(asked(line))


def test_fields_that_a_list_names_are_not_found() -> None:
    assert not list(asked("sum(getattr(total, name) for name in names)"))
