from bench.conversation.model import Call
from bench.conversation.replay import price
from bench.quality.bill import Bill, bill_of


def test_a_prompt_that_goes_on_costs_its_new_text_and_a_tenth_of_the_old() -> None:
    found = bill_of([_chat(1_000, 0), _chat(1_100, 992)])

    assert found == Bill(fresh=1_108, again=99.2)


def test_a_prompt_that_begins_otherwise_is_rewritten_behind_the_break() -> None:
    found = bill_of([_chat(1_000, 0), _chat(400, 32), _chat(500, 400)])

    assert (found.breaks, found.rewritten, found.fresh) == (1, 368, 1_100)


def test_side_queries_are_billed_apart_and_break_nothing() -> None:
    aside = Call(1_050, 992, 300, is_side_query=True, broken_pairs=0)

    found = bill_of([_chat(1_000, 0), aside, _chat(1_060, 992)])

    assert found.breaks == 0
    assert found.asides == price([aside])


def test_the_parts_are_the_whole_bill() -> None:
    calls = [_chat(1_000, 0), _chat(400, 32), Call(500, 400, 90, True, 0), _chat(480, 400)]

    assert round(bill_of(calls).total, 6) == round(price(calls), 6)


def _chat(sent: int, cached: int) -> Call:
    return Call(sent, cached, 5, is_side_query=False, broken_pairs=0)
