"""Write down on a chat's record what the operator's page shows of it."""

from app.compaction.pipeline import Failure, attempt
from app.proxy.case import Case, Outcome
from app.proxy.conversation_name import naming
from app.proxy.detail import detail_of
from app.proxy.services import Services
from app.telemetry.logs import say_mistake
from app.telemetry.record import ExchangeRecord


def note_exchange(case: Case, outcome: Outcome, record: ExchangeRecord, services: Services) -> None:
    """Note what became of a chat; one that cannot be told goes on all the same."""
    if not services.exchanges.is_kept:
        return
    noted = attempt("dashboard", _note, case, outcome, record, services)
    if isinstance(noted, Failure):
        say_mistake("request could not be told to the dashboard", noted.error)


def _note(case: Case, outcome: Outcome, record: ExchangeRecord, services: Services) -> None:
    if record.naming is None:
        record.naming = naming(
            case.conversation, len(case.request.body), case.tenant, services.store
        )
    # A replay tells of the same chat again, and the first form is not what was sent.
    if record.detail or services.exchanges.takes_detail():
        record.detail = detail_of(case, outcome, show_text=services.exchanges.shows_text)
