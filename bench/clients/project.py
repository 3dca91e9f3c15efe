"""The files that the agent works on, and its steps: they are read, edited, tested, read again."""

import json
from typing import Any

from bench.conversation.prompt import Json
from bench.conversation.texts import Texts

FILES = 9
Result = tuple[str, dict[str, Any], str]


class Project:
    """A few files of some kB that change while the agent works."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._files = {
            texts.path(): texts.code(texts.random.randint(110, 270)) for _ in range(FILES)
        }
        self._calls = 0
        self._kinds = (self._read, self._edit, self._read, self._test, self._search)

    def path(self) -> str:
        """Return the path of one of the files."""
        return self._texts.random.choice(list(self._files))

    def step(self) -> list[Json]:
        """Return a message with a call, or with two every ninth time, and its results.

        Every other message says nothing beside its calls.
        """
        number = self._calls
        kinds = [self._kinds[number % len(self._kinds)]]
        if number % 9 == 8:
            kinds.append(self._read)
        calls, results = zip(*(self._called(*kind()) for kind in kinds), strict=True)
        said = self._texts.sentence(16) if number % 2 == 0 else ""
        return [{"role": "assistant", "content": said, "tool_calls": list(calls)}, *results]

    def _called(self, name: str, arguments: dict[str, Any], result: str) -> tuple[Json, Json]:
        self._calls += 1
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{self._calls:06d}", "type": "function", "function": function}
        return call, {"role": "tool", "tool_call_id": call["id"], "content": result}

    def _read(self) -> Result:
        path = self.path()
        return "read_file", {"path": path, "lines": "1-400"}, self._files[path]

    def _edit(self) -> Result:
        """Replace a line of a file, so that whoever read it knows an older one."""
        texts, path = self._texts, self.path()
        lines = self._files[path].splitlines()
        at = texts.random.randrange(len(lines))
        old, new = lines[at], f"{at + 1:>5}\t    limit = {texts.random.randint(1, 9_999)}"
        self._files[path] = "\n".join([*lines[:at], new, *lines[at + 1 :]])
        return "edit_file", {"path": path, "old": old, "new": new}, f"Edited {path}, line {at + 1}."

    def _test(self) -> Result:
        log = self._texts.log(self._texts.random.randint(30, 90))
        failed = f"FAILED {self.path()}::test_{self._texts.key('case')}"
        return "run_command", {"command": f"pytest -q {self.path()}"}, f"{log}\n{failed}\nexit 1"

    def _search(self) -> Result:
        found = self._texts.matches(self._texts.random.randint(20, 60))
        return "search", {"pattern": self._texts.key("term")}, found
