"""An early-exit run without a model, whose records agree with each other: a table of what every head says, a text, and
the rounds that follow from them (specviz.cost.exit_replay is checked against the real engine elsewhere).

Heads grow surer and better with depth; annealing lowers a confidence, less so the deeper the layer.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from specviz import events as ev
from specviz.cost.exit_replay import ExitKnobs, HeadTable, Replayed, annealed, rounds
from specviz.cost.ledger import RoundCost
from specviz.events import GRID, Event
from support.table import TEXTS, Clock
from support.traces import Recipe, make_header

PROMPT = [1, 2, 3]
SETTING = ExitKnobs(alpha=0.5, tau=0.75, d_max=5, w_max=4, layers=(3, 5))
LAYER_NS, HEAD_NS = 100_000, 150_000


@dataclass(frozen=True)
class Exits:
    """What is decoded how."""

    method: str = "specbound"
    n_layers: int = 8
    n_tokens: int = 40
    setting: ExitKnobs = SETTING
    swept: bool = True
    texts: Sequence[str] = TEXTS
    seed: int = 4
    heads: tuple[str, ...] = ()


def exit_events(exits: Exits | None = None, **changes: Any) -> list[Event]:
    """The records of the run, header to end."""
    exits = exits or Exits(**changes)
    text, table = _answers(exits)
    run = _Run(exits, Clock(), table, text)
    out = [run.clock.stamp(_header(exits), 0, 0)]
    prefill = ev.Prefill(prompt=list(PROMPT), text="abc", n_prompt=len(PROMPT), seed=0, dur_ns=1_000_000)
    out.append(run.clock.stamp(prefill, 0, 0))
    for r, done in enumerate(rounds(run.replayed, exits.setting, exits.n_tokens), 1):
        out += [run.clock.stamp(event, 0, r) for event in run.round(done)]
    if exits.swept:
        out += [run.clock.stamp(event, 0, 0) for event in table]
    return [*out, run.clock.stamp(ev.End(reason="done"), 0, out[-1].r)]


def _answers(exits: Exits) -> tuple[list[int], list[ev.ExitTable]]:
    """A text and what every head says after each of its tokens, at every annealing strength."""
    luck = random.Random(exits.seed)
    text = [luck.randrange(len(exits.texts)) for _ in range(exits.n_tokens)]
    table = []
    for t, token in enumerate(text):
        hard = luck.random()
        for layer in range(1, exits.n_layers):
            share = layer / exits.n_layers
            right = luck.random() < 0.25 + 0.9 * share * (1 - hard / 2)
            raw = min(0.999, max(0.02, 0.6 + 0.7 * share - 0.6 * hard + 0.15 * luck.random()))
            says = token if right else (token + 1 + luck.randrange(3)) % len(exits.texts)
            conf = [ev.six(raw ** annealed(alpha, layer, exits.n_layers)) for alpha in GRID]
            table.append(ev.ExitTable(pos=len(PROMPT) - 1 + t, layer=layer, top1=says, conf=conf))
    return text, table


def _header(exits: Exits) -> ev.Header:
    setting = exits.setting
    knobs: dict[str, Any] = {
        "alpha": setting.alpha,
        "tau": setting.tau,
        "d_max": setting.d_max,
        "w_max": setting.w_max,
        "exit_layers": [", ".join(map(str, setting.layers or ()))],
        "draft_mode": "argmax",
        "heads": list(exits.heads),
        "observe_all": False,
    }
    plain = make_header(Recipe(temperature=0.0))
    sampling = {**plain.sampling, "temperature": 0.0, "max_new_tokens": exits.n_tokens}
    target = ev.ModelInfo(name="table", vocab=len(exits.texts), n_layers=exits.n_layers)
    return make_header(
        Recipe(temperature=0.0),
        method=exits.method,
        drafter="early_exit",
        verifier="walk",
        lossless=True,
        keeps_tokens=True,
        distance=None,
        models=ev.Models(target=target, draft=None),
        knobs=knobs,
        knob_specs=[],
        sampling=sampling,
    )


class _Run:
    """Writes one round after the other."""

    def __init__(self, exits: Exits, clock: Clock, table: list[ev.ExitTable], text: list[int]) -> None:
        self.exits, self.clock, self.text = exits, clock, text
        self.said = {(cell.pos, cell.layer): cell for cell in table}
        self.replayed = HeadTable.of(table, text, exits.n_layers)
        self.next_id = 0

    def round(self, done: Replayed) -> Iterator[Event]:
        all_tokens = [*PROMPT, *self.text]
        n = len(PROMPT) + done.start
        self.clock.now += 10_000
        yield ev.RoundStart(n=n, root=all_tokens[n - 1], knob_version=0, kv={"target": n - 1})
        drafts = self._drafts(n, done)
        climbs = list(self._climbs(n, done, [all_tokens[n - 1], *drafts]))
        born = self._nodes(n, drafts)
        yield from born
        yield from climbs
        kept = done.kept
        for k, node in enumerate(born):
            status: Any = "accepted" if k < kept else "rejected" if k == kept else "untested"
            why: Any = "kept" if k < kept else "not_drawn" if k == kept else "prefix_rejected"
            yield ev.Verify(
                node=node.node,
                order=k if k <= kept else None,
                kind="draw",
                logp=None,
                logq=None,
                thr=None,
                u=0.5 if k <= kept else None,
                status=status,
                why=why,
            )
        yield from self._close(n, done, born)

    def _drafts(self, n: int, done: Replayed) -> list[int]:
        return [self.said[n - 1 + row, layer].top1 for row, layer in enumerate(done.exits)]

    def _nodes(self, n: int, drafts: list[int]) -> list[ev.Node]:
        out = []
        for k, token in enumerate(drafts):
            parent = self.next_id - 1 if k else -1
            text = self.exits.texts[token]
            out.append(ev.Node(node=self.next_id, parent=parent, depth=k + 1, pos=n + k, token=token, text=text))
            self.next_id += 1
        return out

    def _climbs(self, n: int, done: Replayed, rows: list[int]) -> Iterator[Event]:
        """Every row goes up to its exit and takes along, layer by layer, those that were left behind there."""
        exits, fill = self.exits, [n - 1] * self.exits.n_layers
        for row, token in enumerate(rows):
            terminal = row == len(rows) - 1
            top = exits.n_layers if terminal else done.exits[row]
            past = fill[:top]
            fill = [n + row] * top + fill[top:]
            full = terminal and len(done.exits) >= exits.setting.w_max
            gates = [] if full else self._gates(n - 1 + row, row, exits.n_layers if terminal else top, terminal)
            self.clock.now += LAYER_NS * top + HEAD_NS * len(gates)
            yield from gates
            choice = None if terminal else self.said[n - 1 + row, top]
            yield ev.LayerTrace(
                row=row,
                pos=n - 1 + row,
                token=token,
                source="draft" if row else "root",
                exit_layer=None if terminal else top,
                terminal=terminal,
                draft_token=choice.top1 if choice else None,
                raw_conf=choice.conf[0] if choice else None,
                layer_from=1,
                past_len=past,
                width=[n + row - before for before in past],
                layer_ns=[LAYER_NS] * top,
                fill_after=list(fill),
            )

    def _gates(self, pos: int, row: int, top: int, terminal: bool) -> list[ev.Gate]:
        setting = self.exits.setting
        out = []
        for layer in setting.layers or ():
            if layer > min(top, setting.d_max) or (pos, layer) not in self.said:
                continue
            cell = self.said[pos, layer]
            conf = cell.conf[round(setting.alpha * 10)]
            took = layer == top and not terminal
            out.append(
                ev.Gate(
                    row=row,
                    layer=layer,
                    raw_conf=cell.conf[0],
                    temp=annealed(setting.alpha, layer, self.exits.n_layers),
                    conf=conf,
                    tau=setting.tau,
                    raw_thr=setting.tau ** (1 / annealed(setting.alpha, layer, 8)),
                    took=took,
                    top1=cell.top1,
                    head_ns=HEAD_NS,
                )
            )
        return out

    def _close(self, n: int, done: Replayed, born: list[ev.Node]) -> Iterator[Event]:
        exits, start = self.exits, done.start
        tokens = self.text[start : start + done.n_new]
        closes = done.n_new > done.kept
        kind: Any = "recovered" if len(born) > done.kept else "bonus"
        stop = born[done.kept - 1].node if done.kept else -1
        cost = RoundCost(exits.n_layers, done.exits, done.kept)
        tests = done.tests
        yield ev.Closing(
            node=stop,
            kind=kind if closes else "none",
            token=tokens[-1] if closes else None,
            text=exits.texts[tokens[-1]] if closes else None,
            u=0.5,
        )
        predicted = cost.layer_calls * LAYER_NS + tests * HEAD_NS
        yield ev.ExitRound(
            n_rows=len(born) + 1,
            layer_calls=cost.layer_calls,
            cells=cost.cells,
            head_tests=tests,
            saved_calls=cost.saved_calls,
            wasted_cells=cost.wasted_cells,
            predicted_ns=predicted,
        )
        last = start + done.n_new == len(self.text)
        yield ev.Commit(
            tokens=tokens,
            texts=[exits.texts[t] for t in tokens],
            kinds=["accepted"] * done.kept + [kind] * closes,
            n=n + done.n_new,
            finish="length" if last else None,
        )
        yield ev.RoundEnd(
            n_drafted=len(born),
            n_tested=min(len(born), done.kept + 1),
            n_accepted=done.kept,
            n_emitted=done.n_new,
            n_draft_calls=len(born),
            n_syncs=tests,
            probe_ns=0,
            draft_end="full",
            cut=False,
            stage_ns={"draft": sum(done.exits) * LAYER_NS, "target": int(predicted * 1.1) - sum(done.exits) * LAYER_NS},
            walk_end="rejected" if kind == "recovered" else "leaf",
        )
