"""The services that requests are compacted with."""

from dataclasses import dataclass

from chat_proxy.proxy.session.images.image_services import ImageServices
from chat_proxy.proxy.session.offloads import Offloads
from chat_proxy.proxy.session.originals import Originals
from chat_proxy.proxy.session.recognition.checkpoints import Checkpoints
from chat_proxy.proxy.session.recognition.last_seen import LastSeen
from chat_proxy.proxy.sizing.tokenizers import Tokenizers
from chat_proxy.proxy.summaries.services import SummaryServices
from chat_proxy.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class CompactionServices:
    """The state that compactions share; all of it is keyed by tenant."""

    checkpoints: Checkpoints
    last_seen: LastSeen
    offloads: Offloads
    originals: Originals
    tokenizers: Tokenizers
    summaries: SummaryServices
    metrics: Metrics
    images: ImageServices
