"""Tool results in the archive: a file for each text, and a list of their owners."""

import re
from pathlib import PurePosixPath

from chat_proxy.store.archive.files import RESULTS, Entry, Folder
from chat_proxy.store.purge_selection import Purged, Selection

OWNERS = "owners"

_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_FILE = re.compile(r"([0-9a-f]{32})\.txt", re.ASCII)
_OWNER_LINE = re.compile(r"([0-9a-f]{32}) ([\w.:-]{1,128})\n", re.ASCII)


def file_of(name: str) -> str:
    """Return the file name for an id, or raise ValueError if the id is invalid."""
    if not _ID.fullmatch(name):
        raise ValueError("not a valid id of a tool result")
    return f"{name}.txt"


def path_of(name: str) -> PurePosixPath:
    """Return the path of an id's file in the archive."""
    return PurePosixPath(RESULTS) / file_of(name)


def write_result(folder: Folder, tenant: str, name: str, text: bytes, at: float) -> None:
    """Write a text, after recording its owner: a file without owner could not be purged."""
    owner = f"{name} {tenant}\n"
    if not _OWNER_LINE.fullmatch(owner):
        raise ValueError("not a valid name for the archive")
    folder.append(OWNERS, owner.encode(), at)
    folder.replace(file_of(name), [text], at)


def results(folder: Folder) -> list[Entry]:
    """Return the files of all tool results."""
    return [entry for entry in folder.entries() if _FILE.fullmatch(entry.name)]


def remove_result(folder: Folder, result: Entry) -> Purged:
    """Delete one file; forget_owners deletes its owner later."""
    folder.remove(result.name)
    return Purged(files=1, bytes=result.size)


def purge_results(folder: Folder, selection: Selection, at: float) -> Purged:
    """Delete the selected files and the records of their owners."""
    owners = owners_of(folder)
    purged = Purged()
    for result in results(folder):
        if selection.is_old(result.at) and selection.may_belong_to_tenant(owners.get(result.name)):
            purged += remove_result(folder, result)
    forget_owners(folder, at)
    return purged


def forget_owners(folder: Folder, at: float) -> None:
    """Delete duplicates from the list of owners, and the owners of files that no longer exist."""
    listed = folder.entry(OWNERS)
    if listed is None:
        return
    existing = {result.name for result in results(folder)}
    kept = {name: owner for name, owner in owners_of(folder).items() if name in existing}
    lines = [f"{name.removesuffix('.txt')} {owner}\n".encode() for name, owner in kept.items()]
    if sum(map(len, lines)) < listed.size:
        folder.replace(OWNERS, lines, at)


def owners_of(folder: Folder) -> dict[str, str]:
    """Return the owner of each file that has one."""
    lines = (line.decode("utf-8", "replace") for line in folder.lines(OWNERS))
    found = (match for line in lines if (match := _OWNER_LINE.fullmatch(line)))
    return {f"{match[1]}.txt": match[2] for match in found}
