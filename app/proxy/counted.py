"""A request that is looked at rather than answered: its size must be exact."""

from app.chat.request import ChatRequest
from app.errors import InvalidValue
from app.proxy.caller import Caller
from app.proxy.case import Case
from app.proxy.measure import measure
from app.proxy.services import Services


async def counted_case(
    request: ChatRequest,
    caller: Caller,
    request_id: str,
    services: Services,
    *,
    is_dry: bool = False,
) -> Case:
    """Return a request counted by a loaded tokenizer; InvalidValue if nobody understands it."""
    to = services.addressees.of(request.model)
    credentials = services.destinations.credentials_for(to.card, caller)
    measured = await measure(request, to, credentials, services)
    if measured is not None and measured.counted.is_guess:
        await services.tokenizers.loaded(measured.rules.encoding)
        measured = await measure(request, to, credentials, services)
    if measured is None:
        raise InvalidValue("messages must be a list of objects.", param="messages")
    return Case(request, measured, to, caller.tenant, credentials, request_id, is_dry)
