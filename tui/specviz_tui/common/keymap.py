"""The keys of the screen, the tree and the knobs; a panel brings its own. Bindings, the footer and the help overlay are
made from them; ids stay the same for remapping."""

from dataclasses import dataclass

from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Key:
    """A key. `caps`: as printed; `short`: the footer's word; `rank`: place in the footer, 0 stays out of it."""

    id: str
    keys: str
    action: str
    caps: str
    help: str
    group: str
    short: str = ""
    rank: int = 0
    narrow: bool = False  # in the footer of a narrow screen too

    @property
    def binding(self) -> Binding:
        return Binding(self.keys, self.action, self.help, show=False, key_display=self.caps, id=self.id)


SCREEN_KEYS: tuple[Key, ...] = (
    Key("play", "space", "play", "space", "pause or play", "Time", "play", 1, True),
    Key("step.next", "full_stop", "step(1)", ".", "next step: a level drafted, a test, a phase", "Time"),
    Key("step.previous", "comma", "step(-1)", ",", "previous step", "Time", "step", 2, True),
    Key("phase.next", "greater_than_sign", "phase(1)", ">", "next phase of the round", "Time"),
    Key("phase.previous", "less_than_sign", "phase(-1)", "<", "previous phase", "Time"),
    Key(
        "round.next",
        "right_square_bracket",
        "round(1)",
        "]",
        "next round; at the end of a held run: let the core run one",
        "Time",
    ),
    Key("round.previous", "left_square_bracket", "round(-1)", "[", "previous round", "Time", "round", 3, True),
    Key("rejection.next", "right_curly_bracket", "rejection(1)", "}", "next rejection", "Time"),
    Key(
        "rejection.previous",
        "left_curly_bracket",
        "rejection(-1)",
        "{",
        "previous rejection",
        "Time",
        "rejection",
        4,
        True,
    ),
    Key(
        "seek",
        "g",
        "seek",
        "g",
        "go to a round, a node (r37/n14), a time (2.5s), a share (37%) or a text",
        "Time",
        "seek",
        11,
    ),
    Key(
        "find", "slash", "find", "/", "find rounds and nodes: depth>2 and p/q<.3, rejected and q>.5", "Time", "find", 10
    ),
    Key("match.next", "n", "match(1)", "n", "next match; N: the one before", "Time"),
    Key("first", "home", "first", "Home", "first round", "Time"),
    Key("last", "end", "last", "End", "last round; live: follow", "Time", "follow", 1, True),
    Key("slower", "minus", "speed(-1)", "-", "slower, down to a quarter", "Time"),
    Key("faster", "equals_sign,plus", "speed(1)", "=", "faster, up to 16×", "Time"),
    Key("speed.recorded", "0", "speed(0)", "0", "speed as recorded", "Time"),
    Key("bookmark", "b", "bookmark", "b", "bookmark this round", "Time"),
    Key("bookmarks", "B", "bookmarks", "B", "list of bookmarks", "Time"),
    Key("warnings", "w", "warnings", "w", "list of warnings of the core, each in full", "Time"),
    Key("findings", "i", "findings", "i", "what stands out in this run, each with the rounds that show it", "Time"),
    Key("value", "v", "value", "v", "value beside the tokens: q, p, p/q, u, rank", "Tree", "value", 10),
    Key("text", "t", "text", "t", "text as words, as raw tokens, as ids; in a conversation: who said what", "Tree"),
    Key("fold", "x", "fold", "x", "fold the branches that lost", "Tree"),
    Key("expand", "X", "expand", "X", "show every branch", "Tree"),
    Key("why", "enter", "why", "enter", "pin the why panel to this node; again lets go", "Tree", "why", 5, True),
    Key("again", "u", "again", "u", "what if: this node with another u, and by other rules", "Tree", "what if", 13),
    Key("copy", "y", "copy", "y", "copy the node as JSON", "Tree"),
    Key("link", "Y", "link", "Y", "copy the command that opens this place", "Tree"),
    Key("back", "escape", "back", "esc", "back: close the panel, let go of the node", "Tree"),
    Key("knobs", "K", "knobs", "K", "to the knobs", "Knobs", "knobs", 6, True),
    Key(
        "message",
        "m",
        "message",
        "m",
        "live: write a message to a model that talks; ctrl+c stops an answer",
        "Run",
        "write",
        1,
        True,
    ),
    Key("conversation.new", "N", "new_conversation", "N", "live: a new conversation", "Run"),
    Key("interrupt", "ctrl+c", "interrupt", "^c", "live: stop an answer", "Run"),
    Key("open", "o", "open", "o", "open a model to decode live with, or a trace", "Run", "open", 9),
    Key("compare", "C", "compare", "C", "this run beside one to three recordings", "Run"),
    Key(
        "two",
        "A",
        "try_both",
        "A",
        "live: A/B, this prompt under two settings side by side",
        "Run",
    ),
    Key("hold", "H", "hold", "H", "live: hold the core before its next round, or let it go on", "Run", "hold", 6),
    Key(
        "pace",
        "F",
        "pace",
        "F",
        "live: every round seen to its end (the core waits for you), or full speed",
        "Run",
        "pace",
        1,
        True,
    ),
    Key("start", "p", "start", "p", "live: another prompt, model, method; models stay loaded", "Run"),
    Key("stop", "S", "stop", "S", "live: end the run", "Run"),
    Key("record", "R", "record", "R", "live: recording on or off", "Run"),
    Key("export", "e", "export", "e", "take out: picture, page, tables, film of the round, link", "Run", "export", 12),
    Key("lesson.next", "L", "lesson(1)", "L", "guided lessons; in one: the next step", "Run"),
    Key("lesson.back", "backspace", "lesson(-1)", "⌫", "in a lesson: the step before", "Run"),
    Key("screen.tree", "1", "go_to('tree')", "1", "back to the draft tree", "Screen"),
    Key("zoom", "O", "zoom", "O", "only the part in focus on the whole screen; again: all of it", "Screen"),
    Key("theme", "T", "theme", "T", "next theme", "Screen"),
    Key("help", "question_mark", "help", "?", "this page", "Screen", "help", 7, True),
    Key(
        "explain", "f1", "explain", "F1", "explain the focused panel; ← → there: all other pages of the guide", "Screen"
    ),
    Key("palette", "ctrl+p", "palette", "^p", "command palette", "Screen"),
    Key("quit", "q,ctrl+q", "quit", "q", "quit", "Screen", "quit", 8, True),
)

TREE_KEYS: tuple[Key, ...] = (
    Key("tree.left", "left,h", "move('left')", "← h", "to the parent", "Tree"),
    Key("tree.right", "right,l", "move('right')", "→ l", "to the first child", "Tree"),
    Key("tree.up", "up,k", "move('up')", "↑ k", "node above", "Tree"),
    Key("tree.down", "down,j", "move('down')", "↓ j", "node below", "Tree"),
    Key("tree.page_up", "pageup", "page_up", "PgUp", "scroll the tree up", "Tree"),
    Key("tree.page_down", "pagedown", "page_down", "PgDn", "scroll the tree down", "Tree"),
)

KNOB_KEYS: tuple[Key, ...] = (
    Key("knob.less", "left,h", "adjust(-1)", "← h", "less", "Knobs"),
    Key("knob.more", "right,l", "adjust(1)", "→ l", "more", "Knobs"),
    Key("knob.previous", "up,k,shift+tab", "move(-1)", "↑ k", "knob before", "Knobs"),
    Key("knob.next", "down,j,tab", "move(1)", "↓ j", "knob after", "Knobs"),
    Key("knob.type", "enter", "type", "enter", "type a value", "Knobs"),
    Key("knob.apply", "a", "apply", "a", "apply at the next round", "Knobs"),
    Key("knob.undo", "z", "undo", "z", "undo the last change", "Knobs"),
    Key("knob.reset", "x", "reset", "x", "stage the default", "Knobs"),
    Key("knob.sets", "s", "sets", "s", "sets of values: defaults, as the run began, your own", "Knobs"),
    Key("knob.leave", "escape", "leave", "esc", "back to the tree", "Knobs"),
)

# In the footer the two directions of a step share one entry, as in `[ ] round`.
PAIRS: dict[str, str] = {
    "step.previous": "step.next",
    "round.previous": "round.next",
    "rejection.previous": "rejection.next",
}


def bindings(table: tuple[Key, ...]) -> list[BindingType]:
    return [key.binding for key in table]


def page_keys(prefix: str, group: str) -> tuple[Key, Key]:
    """The keys that scroll a panel by a part of the screen."""
    return (
        Key(f"{prefix}.page_up", "pageup", "scroll(-12)", "PgUp", "scroll up by a part", group),
        Key(f"{prefix}.page_down", "pagedown", "scroll(12)", "PgDn", "scroll down by a part", group),
    )
