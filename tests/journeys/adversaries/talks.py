"""What clients say: the same words for every tenant, so that only their keys tell them apart."""

from tests.journeys.trimming.growing import output, step
from tests.unit.chat.shapes import Fields, developer, says, system, user

TENANTS = ("sk-one", "sk-two", "sk-three")


class Talk:
    """A conversation as its client holds it; tenants who make the same moves say the same."""

    def __init__(self) -> None:
        self.messages: list[Fields] = [
            system("Be brief. " * 10),
            developer("Use tools."),
            user("Let us begin."),
        ]

    def ask(self, tokens: int) -> None:
        """Take in an answer and ask the next question."""
        number = len(self.messages)
        self.messages = [
            *self.messages,
            says(output(tokens, f"answer {number}")),
            user(output(tokens // 4, f"question {number}")),
        ]

    def work(self, tokens: int, parallel: int) -> None:
        """Make a step: calls at once, and their results."""
        number = len(self.messages)
        results = [output(tokens, f"file {number} {index}") for index in range(parallel)]
        self.messages = [*self.messages, *step(f"step{number}", *results)]

    def edit(self) -> None:
        """Say the last question in other words."""
        place = self._last_question()
        edited = user(f"{self.messages[place]['content']} Or rather not.")
        self.messages = [*self.messages[:place], edited]

    def branch(self, back: int) -> None:
        """Go back by so many questions, and on from there."""
        for _ in range(back):
            place = self._last_question()
            if place > 2:
                self.messages = self.messages[: place - 1]
                self.messages = self.messages[: self._last_question() + 1]

    def _last_question(self) -> int:
        return max(place for place, it in enumerate(self.messages) if it["role"] == "user")
