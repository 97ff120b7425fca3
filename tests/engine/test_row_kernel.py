"""What the kernel says of rows is what torch says of them, to the six digits that are recorded."""

import math
import shutil

import pytest
import torch

from engine.test_gathers import long_rows
from specviz.engine.model.compiled import rows as kernels
from specviz.engine.model.compiled.rows import RowFacts, RowKernel, addresses, row_kernel
from specviz.engine.row_stats import distances, facts_of, largest, leads
from specviz.events import log6, six
from specviz.methods.trained.ranks import summary
from specviz.names import COMPILE

KINDS = ["any", "levels", "sparse", "rising", "level"]
SIZES = [64 * 8, 64 * 8 + 1, 4097, 49_152]
TOPK = 8


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> RowKernel:
    """The kernel, where a compiler is at hand."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler here")
    monkeypatch.setenv(COMPILE, "auto")
    rows = row_kernel()
    assert rows is not None
    return rows


def near(ours: float, wanted: float) -> bool:
    """A step of the sixth digit: where a sum lies within rounding of the middle between two, the last may differ."""
    return ours == wanted or abs(ours - wanted) <= 1.01e-5 * abs(wanted)


def tokens_of(table: torch.Tensor) -> tuple[list[int], list[int]]:
    """Rows and tokens: the likeliest, the eighth, some at random, the last; rows come in any order, and twice."""
    order = table.argsort(dim=-1, descending=True, stable=True)
    of = [2, 0, 1, 1, 0, 3, 2]
    last = table.shape[-1] - 1
    return of, [int(order[2, 0]), int(order[0, 7]), int(order[1, 8]), 0, last, last // 3, last // 2]


def check(ours: RowFacts, wanted: RowFacts) -> int:
    """Equal but for a sixth digit here and there; how many of those."""
    assert [[token for token, _ in top] for top in ours.tops] == [[token for token, _ in top] for top in wanted.tops]
    assert ours.ranks == wanted.ranks
    mine, theirs = (
        [*facts.entropies, *facts.logs, *(log for top in facts.tops for _, log in top)] for facts in (ours, wanted)
    )
    assert all(map(near, mine, theirs))
    return sum(a != b for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shares", [False, True])
def test_facts_are_those_of_torch(kernel: RowKernel, size: int, kind: str, shares: bool) -> None:
    table = long_rows(4, size, kind)
    if shares:
        table = table.softmax(-1)
    of, tokens = tokens_of(table)
    wanted = facts_of(None, table, TOPK, of, tokens, shares=shares)
    where = addresses(table, TOPK)
    assert where is not None
    facts = kernel.facts(where, size, TOPK, of, tokens, shares=shares)
    assert facts is not None
    check(facts, wanted)
    assert facts.leads == [six(lead) for lead in leads(table)]
    assert check(facts_of(kernel, list(table), TOPK, of, tokens, shares=shares), facts) == 0


def test_digits_are_the_same_but_for_a_few(kernel: RowKernel) -> None:
    """Of some 20,000 numbers, rows from sharp to flat, at most one in a thousand has another sixth digit."""
    noise = torch.randn(2000, 600, generator=torch.Generator().manual_seed(1))
    table = noise * torch.logspace(-1, 1.3, 2000)[:, None]
    for shares, rows in ((False, table), (True, table.softmax(-1))):
        of, tokens = list(range(2000)), rows.argmax(-1).tolist()
        wanted = facts_of(None, rows, TOPK, of, tokens, shares=shares)
        assert check(facts_of(kernel, rows, TOPK, of, tokens, shares=shares), wanted) <= 20


@pytest.mark.parametrize("kind", KINDS)
def test_without_tops_the_logs_are_the_same(kernel: RowKernel, kind: str) -> None:
    table = long_rows(4, 49_152, kind)
    of, tokens = tokens_of(table)
    facts = facts_of(kernel, list(table), 0, of, tokens)
    assert (facts.entropies, facts.tops, facts.ranks) == ([], [], [])
    assert all(map(near, facts.logs, facts_of(None, list(table), 0, of, tokens).logs))
    alone = kernel.facts(addresses(table) or [], 49_152, -1, (), ())
    assert alone is not None
    assert alone.leads == facts.leads == [six(lead) for lead in leads(table)]


@pytest.mark.parametrize("k", [1, 2, 3, 7, 8, 20, 64])
def test_of_level_entries_the_lowest_token_comes_first(kernel: RowKernel, k: int) -> None:
    for seed in range(30):
        n = max(2, k) + seed * seed
        table = torch.randint(0, 5 + seed, (3, n), generator=torch.Generator().manual_seed(seed)).float()
        wanted = table.sort(dim=-1, descending=True, stable=True).indices[:, :k].tolist()
        for by in (kernel, None):
            facts = facts_of(by, table, k)
            assert [[token for token, _ in top] for top in facts.tops] == wanted
        assert largest(kernel, table[0], k)[0] == largest(None, table[0], k)[0] == wanted[0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_largest_of_a_row_and_its_sum(kernel: RowKernel, kind: str) -> None:
    for row in long_rows(3, 4099, kind).softmax(-1):
        ids, values, total = largest(kernel, row, 20)
        its_ids, its_values, its_total = largest(None, row, 20)
        assert (ids, values) == (its_ids, its_values)
        assert total == pytest.approx(its_total, rel=1e-13)


def test_distances_are_summed_in_double() -> None:
    rows, laws = (long_rows(3, 4099, kind).softmax(-1) for kind in ("any", "rising"))
    wanted = (rows.double() - laws.double()).abs().sum(-1) / 2
    assert distances(rows, laws) == pytest.approx(wanted.tolist(), rel=1e-7)
    assert distances(rows.double(), laws.double()) == pytest.approx(wanted.tolist(), rel=1e-14)


def test_ends_of_what_numbers_can_be(kernel: RowKernel) -> None:
    """One token with all mass; scores far apart; masked tokens, which are not listed; probabilities below float's."""
    table = torch.full((4, 600), -math.inf)
    table[0, 5] = 3.0
    table[1, :] = torch.linspace(-3e4, 3e4, 600)
    table[2, 40:44] = torch.tensor([2.0, 1.0, -90.0, -120.0])
    table[3, :] = 0.0
    of, tokens = [0, 0, 1, 2, 3], [5, 6, 0, 43, 9]
    ours, wanted = (facts_of(by, table, TOPK, of, tokens) for by in (kernel, None))
    assert check(ours, wanted) == 0
    assert (ours.entropies[0], ours.tops[0], ours.logs[:2]) == (0.0, [(5, 0.0)], [0.0, log6(0.0)])
    assert [token for token, _ in ours.tops[2]] == [40, 41, 42]
    assert ours.entropies[3] == six(math.log(600))


def test_rows_that_it_does_not_read(kernel: RowKernel) -> None:
    table = long_rows(4, 4096, "any")
    assert addresses(table.double()) is None
    assert addresses(table.bfloat16()) is None
    assert addresses(table.T) is None
    assert addresses(table[:, ::2]) is None
    assert addresses([table[0], table[1, ::2]]) is None
    assert addresses([table[0], table[1, :77]]) is None
    assert addresses(table[:, :7].contiguous(), 8) is None
    assert addresses(table, 65) is None
    assert addresses(table[1:3], 8) == addresses([table[1], table[2]], 8)
    for token in (-1, 4096):
        assert kernel.facts(addresses(table) or [], 4096, 0, [2, 2], [3, token]) is None
    table[2, 7] = math.nan
    assert kernel.facts(addresses(table) or [], 4096, 0, [2], [3]) is None


def test_without_a_compiler_torch_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMPILE, "off")
    assert row_kernel() is None
    monkeypatch.setenv(COMPILE, "auto")

    def none(*_: object) -> None:
        raise OSError("no C compiler here")

    monkeypatch.setattr(kernels, "_functions", none)
    assert row_kernel() is None


def test_summaries_are_those_of_torch(kernel: RowKernel) -> None:
    """What a rank head reads, in double and then rounded, by either."""
    n_top = 20
    table = torch.randn(5, 64 * n_top, generator=torch.Generator().manual_seed(4)) * 3
    table[3] += 50
    where = addresses(table, n_top)
    assert where is not None
    assert kernel.facts(where, table.shape[1], n_top, (), ()) is not None
    summaries = kernel.summaries(5, n_top)
    assert summaries is not None
    assert torch.equal(summaries, summary(table.double()).float())
    before = torch.get_default_dtype()
    try:  # as it is while another thread loads a model
        torch.set_default_dtype(torch.bfloat16)
        again = kernel.summaries(5, n_top)
    finally:
        torch.set_default_dtype(before)
    assert again is not None
    assert torch.equal(again, summaries)
    table[2, 3:] = -math.inf
    assert kernel.facts(where, table.shape[1], n_top, (), ()) is not None
    assert kernel.summaries(5, n_top) is None, "three tokens are likely at all"
