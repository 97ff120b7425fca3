"""What the server answers, apart from who may ask: runs and rounds, a round decided again, commands, and refusals."""

from typing import TYPE_CHECKING, Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import JSONResponse, Response

from specviz.errors import SpecvizError
from specviz.whatif import Change
from specviz_app.server.core import decode_asked
from specviz_app.server.live_rounds import LiveRounds, RunFollowed, conversation
from specviz_app.server.room import PresenterPlace, decode_said
from specviz_app.server.sharing import TYPES, taken

if TYPE_CHECKING:
    from specviz_app.server.server import Server

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}
_TO_KEEP = {"Content-Disposition": "attachment"}


def played(server: "Server", asked: QueryParams) -> Response:
    """The head of a run; with `round`, so many rounds from there on as `n` says; with `page`, all as one file; with
    `share`, a film of a round or the tables of all; with `points`, of the newest run of the core, the time line
    from there on, with `knobs` those of a next run by that method; with `further`, the same of a recording, a part
    more of which is read; with `said`, what was said to the core."""
    first, n = asked.get("round"), asked.get("n", "1")
    try:
        if "said" in asked:
            return Response(conversation(server.core), media_type="application/json", headers=HEADERS)
        run = server.played(asked.get("run", ""))
        if isinstance(run, LiveRounds) and (since := asked.get("points")) is not None:
            return Response(run.points(_number(since)), media_type="application/json", headers=HEADERS)
        if isinstance(run, LiveRounds) and (method := asked.get("knobs")) is not None:
            return Response(run.knobs_of(method), media_type="application/json", headers=HEADERS)
        if not isinstance(run, LiveRounds) and (since := asked.get("further")) is not None:
            return Response(run.further(_number(since)), media_type="application/json", headers=HEADERS)
        if "page" in asked:
            return Response(run.page(), media_type="text/html", headers={**HEADERS, **_TO_KEEP})
        if "share" in asked:
            wanted = taken(asked)
            return Response(run.share(wanted), media_type=TYPES[wanted.kind], headers={**HEADERS, **_TO_KEEP})
        body = run.head() if first is None else run.rounds(_number(first), _number(n), asked.get("view", ""))
    except RunFollowed:
        return Response(status_code=204, headers=HEADERS)  # no fault: the page is about to hear of it
    except (SpecvizError, OSError) as error:
        return refused(str(error), 404)
    return Response(body, media_type="application/json", headers=HEADERS)


class AskedWhatIf(msgspec.Struct):
    """What is to be another in a round of a recording: of `Change`, as JSON has it."""

    run: str
    round: int
    verifier: str | None = None
    knobs: dict[str, bool | int | float | str] = {}
    uniforms: dict[str, float] = {}

    def change(self) -> Change:
        """Raises SpecvizError for a node or a uniform that is none."""
        drawn = {_number(node): u for node, u in self.uniforms.items()}
        for node, u in drawn.items():
            if not 0 <= u < 1:
                raise SpecvizError(f"u of n{node} is {u:g}: a uniform lies in [0, 1)")
        return Change(self.verifier, self.knobs, drawn)


def post_whatif(server: "Server", body: bytes) -> Response:
    """A round of a recording, decided again."""
    try:
        asked = msgspec.json.decode(body, type=AskedWhatIf)
        run = server.played(asked.run)
        if isinstance(run, LiveRounds):
            raise SpecvizError("what if is for runs that are over: this one goes on, move its knobs")
        answer = run.what_if(asked.round, asked.change())
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return refused(f"bad question: {error}", 400)
    except (SpecvizError, OSError) as error:
        return refused(str(error), 409)
    return Response(answer, media_type="application/json", headers=HEADERS)


def _number(word: str) -> int:
    """A whole number of an address. Raises SpecvizError for what is none."""
    if not (word.isdecimal() and word.isascii()) or len(word) > 9:
        raise SpecvizError(f"'{word[:20]}' is no number of rounds")
    return int(word)


def post_command(server: "Server", body: bytes) -> Response:
    """A command for the core."""
    try:
        server.core.command(decode_asked(body))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return refused(f"bad command: {error}", 400)
    except RecursionError:
        return refused("bad command: nested too deeply", 400)
    except SpecvizError as error:
        return refused(str(error), 409)
    return JSONResponse({"ok": True}, headers=HEADERS)


def post_presence(server: "Server", leads: bool, body: bytes) -> Response:
    """A word of a page about looking together: where it stands, for who may steer; that it has gone, for all."""
    try:
        message = decode_said(body)
        if isinstance(message, PresenterPlace) and not leads:
            return forbidden(
                "only who started this server presents: open it by the address that it printed, with the key"
            )
        server.room.hear(message)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return refused(f"bad word: {error}", 400)
    return JSONResponse({"ok": True}, headers=HEADERS)


def forbidden(why: str) -> Response:
    """For who has no token, or the wrong one."""
    return refused(why, 403)


def refused(why: str, status: int) -> Response:
    """In one line."""
    body: dict[str, Any] = {"ok": False, "message": why}
    return JSONResponse(body, status_code=status, headers=HEADERS)
