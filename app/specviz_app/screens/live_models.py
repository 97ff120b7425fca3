"""In the drawer of the live stage: which models. Choosing loads nothing; the button does, and so does a message."""

from dataclasses import dataclass

import streamlit as st

from specviz.errors import SpecvizError
from specviz.events import Header
from specviz.local_models.choices import EMBEDDED, ModelChoice, choice_of, draft_choices, target_choices
from specviz.local_models.found import LocalModel, local_models
from specviz.sources.model_names import ModelNames, recorded_draft
from specviz_app.server.core import ServedRun
from specviz_app.server.server import Server
from specviz_app.ui import address, guard, parts
from specviz_app.ui.owner import must_own

PROBLEM = "start_problem"  # in the session's state: why nothing came of the last press
CHAT = "chat"  # the switch between messages and texts
_FRESH_S = 15  # seconds after which the machine is looked through again


@dataclass(frozen=True, slots=True)
class PickedModels:
    """What is chosen. `ready`: its core is there, or being loaded."""

    target: ModelChoice
    draft: ModelChoice
    ready: bool

    @property
    def models(self) -> ModelNames:
        return ModelNames(self.target.name, self.draft.name)

    @property
    def able(self) -> bool:
        return self.target.able and self.draft.able

    @property
    def talks(self) -> bool:
        """Whether messages are what one would send it, as far as its files say; the pair that comes along goes on
        with texts."""
        return self.target.chat and bool(self.target.name)


@st.cache_data(ttl=_FRESH_S, show_spinner=False)
def _found() -> list[LocalModel]:
    return local_models()


def boxes(server: Server) -> PickedModels:
    """The two lists, in the row that is open."""
    core, available = server.core, _found()
    asked = core.models if core.has_core else server.settings.models.said_plainly
    named = core.has_core or server.settings.live
    targets = target_choices(available)
    target = _box("Model", "target", targets, asked.target if named else targets[0].name)
    drafts = draft_choices(target.name, available)
    same = named and target.name == asked.target
    draft = _box("Draft model", f"draft of {target.name}", drafts, asked.draft if same else drafts[0].name)
    return PickedModels(target, draft, core.loaded and core.models == ModelNames(target.name, draft.name))


def recorded_target(header: Header | None) -> ModelChoice | None:
    """The target of a recording, by its name, among those of this machine and those it could get; None: another."""
    was = header.models.target if header is not None else None
    return next((choice for choice in target_choices(_found()) if was is not None and choice.name == was.name), None)


def proposed_target(recorded: ModelChoice | None, chat: bool) -> ModelChoice:
    """What decodes a recording's prompt where nobody chose: its own target where that is here; else for messages the
    first model of this machine, for texts the pair that comes along."""
    if recorded is not None and recorded.able:
        return recorded
    offered = target_choices(_found())
    return offered[0] if chat else choice_of(EMBEDDED, offered)


def proposed_draft(target: ModelChoice, header: Header) -> str:
    """The draft model that the recording had where it is of the same target, else the one that is usual for it."""
    own = recorded_draft(header) if recorded_target(header) == target else None
    return own or draft_choices(target.name, _found())[0].name


def _box(label: str, key: str, offered: list[ModelChoice], first: str) -> ModelChoice:
    if first not in [choice.name for choice in offered]:
        offered = [choice_of(first, offered), *offered] if first else offered
    by_name = {choice.name: choice for choice in offered}
    names = list(by_name)
    st.session_state.setdefault(key, first if first in names else names[0])

    def label_of(name: str) -> str:
        choice = by_name.get(name)
        return name if choice is None else choice.label if choice.able else f"{choice.label} (not here)"

    name = st.selectbox(
        label,
        names,
        key=key,
        format_func=label_of,
        accept_new_options=True,
        persist_state="session",
        width=178,
        help="found on this machine; or type a folder, a GGUF file or a hub id  \n"
        + "  \n".join(parts.plain(f"{choice.label}: {choice.what}") for choice in offered),
    )
    return choice_of((name or "").strip(), offered)


def load_button(core: ServedRun, picked: PickedModels) -> None:
    """Where what is chosen is not what is loaded."""
    if not picked.ready:
        st.button(
            "Load the models",
            type="secondary" if core.loaded or picked.talks else "primary",
            key="load",
            on_click=guard.obeyed(load),
            args=(core, picked.models),
            disabled=not picked.able,
            help="they run in a process of their own; what was decoded and said stays",
        )


def load(core: ServedRun, models: ModelNames) -> bool:
    """Load them; whether that began. What is wrong is told by the page."""
    try:
        must_own()
        core.load(models.target, models.draft)
        st.session_state.pop(CHAT, None)  # whether prompts are messages begins as the new model is
        address.forget(CHAT)
        return True
    except SpecvizError as error:
        st.session_state[PROBLEM] = str(error)
        return False


def tell(core: ServedRun, picked: PickedModels) -> None:
    """What is wrong with the choice, with the core, or with what was pressed; and the line that mends it."""
    for choice in (picked.target, picked.draft):
        if choice.problem:
            st.warning(parts.plain(f"{choice.problem}."))
        if choice.command:
            st.caption("This gets it, once; then choose it here:")
            st.code(choice.command, language=None)
    if core.failed is not None:
        kept = "The core has ended. What was decoded and said is kept; load the models again to go on."
        st.error(kept if core.has_run and core.catalogue else "The models could not be loaded.")
        st.code(core.failed or "", language=None, wrap_lines=True)
    if problem := st.session_state.pop(PROBLEM, None):
        st.error(parts.plain(problem))
