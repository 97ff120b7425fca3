"""A real server of llama.cpp without counters: its slots tell that it drafts and how many tokens came, and no more."""

import json
import urllib.request
from pathlib import Path

from engines.conftest import LlamaPair, llama_serving
from specviz.cli import main
from specviz.engines.watch import ServerWatcher, read_history
from specviz.judge import Evidence, judge

N = 400


def test_its_slots_are_watched(llama_pair: LlamaPair, tmp_path: Path) -> None:
    with llama_serving(llama_pair, tmp_path / "server.log", "uncounted") as server:
        watcher = ServerWatcher(server.url)
        assert watcher.look().n_generated == 0
        body = json.dumps({"prompt": "abab hello", "n_predict": N, "stream": True}).encode()
        with urllib.request.urlopen(f"{server.url}/completion", body) as answer:
            answer.readline()
            looks = [watcher.look() for _ in range(20)]
            answer.read()
        while (last := watcher.look()).gauges["running"]:
            pass
        file = tmp_path / "history.sv.jsonl"
        assert main(["watch", server.url, "--looks", "2", "--every", "0.1", "-o", str(file)]) == 0
    counts = [look.n_generated or 0 for look in (*looks, last)]
    assert 0 < counts[-1] <= N
    assert counts == sorted(counts)
    assert (last.drafts, last.settings, last.n_drafted) == (True, {"drafters": "draft-simple"}, None)
    picture = watcher.picture
    assert picture is not None
    assert (picture.length, picture.positions, judge(Evidence.of_picture(picture))) == (None, (), ())
    (kept,) = tmp_path.glob("history*")
    assert [look.drafts for look in read_history(kept)] == [True, True]
