"""Arms without models: fixed costs on a clock that only they move."""

from collections.abc import Callable

from specviz_lab.bench.measure import Split, Tokens


class Clock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeArm:
    """Writes `n` tokens, each costing `cost` seconds times what `slow` says of the turn."""

    def __init__(self, name: str, clock: Clock, cost: float, log: list[tuple[str, int]], slow: list[float]) -> None:
        self.name, self.clock, self.cost, self.log, self.slow = name, clock, cost, log, slow

    def ready(self, prompt: Tokens, n: int, seed: int) -> Callable[[], Tokens]:
        def run() -> Tokens:
            self.log.append((self.name, prompt[0]))
            self.clock.now += self.cost * n * self.slow[0]
            return list(range(n))

        return run

    def split(self, prompt: Tokens, n: int, seed: int) -> Split:
        self.ready(prompt, n, seed)()
        return Split(n_tokens=n, n_rounds=n)
