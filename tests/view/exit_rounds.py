"""An early-exit round with given stop depths, and the screen *Layers* of a moment of a run."""

from typing import Any

from specviz import events as ev
from specviz.runlog.fold import fold
from specviz.view import Cursor, Feed, Options, Run
from specviz.view.panels.exits.build import ExitsPanel
from specviz.view.panels.exits.model import HeatMap, LayersModel
from specviz.view.play.build import FrameBuilder
from specviz.view.words.palette import Phase
from support.traces import Recipe, make_header


def golden(exits: list[int], n_layers: int, d_max: int, kept: int) -> Run:
    """A round with these exits, of which `kept` drafts were kept. Positions from 9 on; node k is token k."""
    k = len(exits)
    rows, fill, climbs = [*exits, n_layers], [9] * n_layers, []
    for row, top in enumerate(rows):
        past, fill = fill[:top], [10 + row] * top + fill[top:]
        climbs.append(
            ev.LayerTrace(
                r=1,
                row=row,
                pos=9 + row,
                token=row,
                source="draft" if row else "root",
                terminal=row == k,
                exit_layer=None if row == k else top,
                draft_token=None if row == k else row,
                raw_conf=None,
                layer_from=1,
                past_len=past,
                width=[10 + row - before for before in past],
                layer_ns=[1] * top,
                fill_after=list(fill),
            )
        )
    nodes = [ev.Node(r=1, node=i, parent=i - 1, depth=i + 1, pos=10 + i, token=i, text=f"t{i}") for i in range(k)]
    verdicts = [_verdict(i, kept) for i in range(k)]
    tokens = [*range(kept), 99]
    knobs = {
        "alpha": 0.5,
        "tau": 0.8,
        "d_max": d_max,
        "w_max": 8,
        "exit_layers": [",".join(map(str, range(1, d_max + 1)))],
    }
    header = make_header(
        Recipe(temperature=0.0),
        method="specbound",
        verifier="walk",
        knobs=knobs,
        knob_specs=[],
        models=ev.Models(target=ev.ModelInfo(name="m", n_layers=n_layers)),
    )
    return fold(
        [
            header,
            ev.Prefill(prompt=[1], text="p", n_prompt=10, seed=0, dur_ns=1),
            ev.RoundStart(r=1, n=10, root=1, knob_version=0),
            *nodes,
            *verdicts,
            ev.Closing(r=1, node=kept - 1, kind="bonus" if kept == k else "recovered", token=99, text="z", u=None),
            *climbs,
            ev.Commit(
                r=1, tokens=tokens, texts=["x"] * len(tokens), kinds=["accepted"] * kept + ["bonus"], n=11 + kept
            ),
            ev.RoundEnd(
                r=1,
                n_drafted=k,
                n_tested=min(k, kept + 1),
                n_accepted=kept,
                n_emitted=kept + 1,
                n_draft_calls=k,
                n_syncs=1,
                stage_ns={},
                probe_ns=0,
                draft_end="depth",
                walk_end="leaf",
                cut=False,
            ),
        ]
    )


def _verdict(i: int, kept: int) -> ev.Verify:
    status = "accepted" if i < kept else "rejected" if i == kept else "untested"
    why = {"accepted": "kept", "rejected": "not_drawn", "untested": "prefix_rejected"}[status]
    order = i if i <= kept else None
    return ev.Verify(
        r=1,
        node=i,
        order=order,
        kind="draw",
        logp=None,
        logq=None,
        thr=None,
        u=None,
        status=status,
        why=why,  # type: ignore[arg-type]
    )


def layers(run: Run, index: int = 0, phase: Phase = Phase.COMMIT, step: int = 0, **options: Any) -> LayersModel:
    whole = {name: options.pop(name) for name in ("selected", "folding", "ascii") if name in options}
    chosen = ExitsPanel.choose(Options(**whole), **options)
    panel = ExitsPanel.of(FrameBuilder(run).frame(Cursor(index, phase, step), chosen, Feed()))
    assert panel is not None
    return panel


def heat_of(panel: LayersModel) -> HeatMap:
    assert panel.heat is not None
    return panel.heat
