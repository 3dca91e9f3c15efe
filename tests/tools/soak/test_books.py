"""Every request is accounted for, or it is told which is not."""

from collections import Counter

from tools.soak.books import CHAT, Books
from tools.soak.plan import Errand


def line(name: str, status: int) -> dict[str, object]:
    fields = {"message": "request", "route": CHAT, "code": "", "compaction": "none"}
    return {**fields, "request_id": name, "status": status}


def test_books_in_order_have_nothing_to_say() -> None:
    books = Books()
    early, late, gone = (Errand(name, "fine", streams=True) for name in ("early", "late", "gone"))
    for errand in (early, late, gone):
        books.begin(errand)

    books.log(line("early", 200))
    books.answered(early, 200)
    books.answered(late, 200)
    books.log(line("late", 200))
    books.left(gone)
    books.log(line("gone", 499))

    assert books.close(Counter({"200": 2, "499": 1})) == []


def test_a_request_without_a_line_is_told() -> None:
    books = Books()
    errand = Errand("lost", "fine", streams=True)
    books.begin(errand)
    books.answered(errand, 200)

    assert books.close(Counter()) == ["lost has no line in the log"]


def test_a_second_line_is_told() -> None:
    books = Books()
    errand = Errand("twice", "fine", streams=True)
    books.begin(errand)
    books.answered(errand, 200)
    books.log(line("twice", 200))
    books.log(line("twice", 200))

    assert "twice was logged twice, or never sent" in books.close(Counter({"200": 2}))


def test_an_answer_that_the_log_knows_otherwise_is_told() -> None:
    books = Books()
    errand = Errand("odd", "fine", streams=True)
    books.begin(errand)
    books.answered(errand, 200)
    books.log(line("odd", 502))

    assert books.close(Counter({"502": 1})) == ["odd got 200, the log says 502"]


def test_an_answer_that_the_trouble_does_not_explain_is_told() -> None:
    books = Books()
    errand = Errand("fine", "fine", streams=True)
    books.begin(errand)
    books.answered(errand, 502)
    books.log(line("fine", 502))

    assert books.close(Counter({"502": 1})) == ["fine was answered with 502"]


def test_figures_that_differ_from_the_log_are_told() -> None:
    assert Books().close(Counter({"200": 1})) == ["logged {}, but counted {'200': 1}"]
