"""The comparison of a reorganisation notices what is more than a move."""

import pytest

from tools.moves.definitions import Definition, definitions_in
from tools.moves.renames import ModuleRenames, Renames

MAP = Renames(
    {
        "old_root": "app",
        "package": "new",
        "modules": {"visits": "contexts", "other": "other"},
        "homes": {"visits:LIMIT": "limits"},
        "names": {"visits:Visit": "Context", "other:Room": "Session"},
        "texts": {},
        "exceptions": {"visits:measure": ["room"]},
        "identifiers": [{"files": ["visits.py"], "renames": {"room": "session"}}],
    }
)


def renames() -> ModuleRenames:
    return MAP.of_module("visits", "app/visits.py")


def only(definitions: list[Definition]) -> Definition:
    [definition] = definitions
    return definition


def before(text: str) -> Definition:
    return only(list(definitions_in(text, renames())))


def after(text: str, module: str = "contexts") -> Definition:
    return only(list(definitions_in(text, Renames.nothing(module))))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('class Visit:\n    """Old."""\n    x = 1', 'class Context:\n    """New."""\n    x = 1'),
        ("def enter(room): return room.size", "def enter(session): return session.size"),
        ("def measure(room): return room", "def measure(room): return room"),
        (
            "def f() -> 'Visit':\n    from app.other import Room\n    return Room()",
            "def f() -> 'Context':\n    from new.other import Session\n    return Session()",
        ),
        ('PATH = "app.visits.Visit"', 'PATH = "new.contexts.Context"'),
        ("class A:\n    __slots__ = ('room', 'a')", "class A:\n    __slots__ = ('a', 'session')"),
    ],
)
def test_a_move_and_a_rename_are_no_difference(old: str, new: str) -> None:
    assert before(old).tree == after(new).tree
    assert before(old).name == after(new).name


@pytest.mark.parametrize(
    "new",
    [
        "def enter(session): return session.length",
        "def enter(session, more): return session.size",
        "async def enter(session): return session.size",
        "def enter(session): return session.size or 1",
    ],
)
def test_any_other_change_is_a_difference(new: str) -> None:
    assert before("def enter(room): return room.size").tree != after(new).tree


def test_a_definition_is_looked_for_in_its_new_module() -> None:
    assert before("LIMIT = 1").module == "limits"
    assert before("OTHER = 1").module == "contexts"


def test_two_names_that_become_one_are_reported() -> None:
    assert before("def enter(room, session): return room, session").merged == ("session",)
    assert before("def enter(room): return room").merged == ()
