"""The services that images are scaled and described with."""

from dataclasses import dataclass

from chat_proxy.imaging.scaled_images import ScaledImages
from chat_proxy.proxy.session.images.image_notes import ImageNotes, Spend
from chat_proxy.store.base import Store
from chat_proxy.telemetry.metrics import Metrics
from chat_proxy.upstream.client import Upstream


@dataclass(frozen=True, slots=True)
class ImageServices:
    """Scaled images and notes of images; all of it is keyed by tenant."""

    scaled: ScaledImages
    notes: ImageNotes

    async def close(self) -> None:
        """Cancel running queries and let the threads end."""
        await self.notes.close()
        self.scaled.close()


def make_image_services(
    store: Store, upstream: Upstream, metrics: Metrics, spend: Spend
) -> ImageServices:
    """Return the services, which share their cache of scaled images."""
    scaled = ScaledImages(lambda result: metrics.images.labels(result).inc())
    return ImageServices(scaled, ImageNotes(store, upstream, scaled, spend))
