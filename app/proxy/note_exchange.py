"""Write down on a chat's record what the operator's page shows of it."""

from app.compaction.pipeline import Failure, attempt
from app.proxy.case import Case, Outcome, as_it_came
from app.proxy.conversation_name import name_of
from app.proxy.detail import detail_of
from app.proxy.services import Services
from app.telemetry.logs import say_mistake
from app.telemetry.record import ExchangeRecord


def note_exchange(
    case: Case, outcome: Outcome | None, record: ExchangeRecord, services: Services
) -> None:
    """Note what became of a chat, if anything did; one that cannot be told goes on all the same.

    Under load a chat that begins and ends has only its figures told, and no name.
    """
    exchanges = services.exchanges
    if not exchanges.is_kept:
        return
    # A replay tells of the same chat again, and the first form is not what was sent.
    is_detailed = bool(record.detail) or exchanges.takes_detail()
    if is_detailed or case.conversation.beginning.messages:
        noted = attempt("dashboard", _note, case, outcome, record, services, is_detailed)
        if isinstance(noted, Failure):
            say_mistake("request could not be told to the dashboard", noted.error)


def _note(
    case: Case,
    outcome: Outcome | None,
    record: ExchangeRecord,
    services: Services,
    is_detailed: bool,
) -> None:
    if not record.conversation:
        record.conversation = name_of(case.conversation, case.tenant, services.store)
    if is_detailed:
        told = outcome or as_it_came(case)
        record.detail = detail_of(case, told, show_text=services.exchanges.shows_text)
