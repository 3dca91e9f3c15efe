"""The images of a conversation in the sizes that its treatments say."""

from collections.abc import Mapping

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.ageing.apply import NO_IMAGES, SmallerImages, age, media_slots
from chat_proxy.compaction.ageing.treatments import Place, Treatments
from chat_proxy.imaging.scaled_images import ScaledImages
from chat_proxy.tokens.images.fit import side_of_pixels
from chat_proxy.tokens.images.size import base64_of, image_size


async def smaller_images(
    conversation: Conversation, sides: Mapping[Place, int], tenant: str, images: ScaledImages
) -> SmallerImages:
    """Return the images at these places with these longer sides, as far as they can be scaled."""
    if not sides:
        return NO_IMAGES
    wanted = {
        place: (base64, sides[place])
        for place, base64 in _images_at(conversation, frozenset(sides)).items()
    }
    scaled = await images.scale(tenant, wanted.values())
    found = {place: scaled[it] for place, it in wanted.items()}
    return {place: (it.mime, it.base64) for place, it in found.items() if it is not None}


async def with_fewer_pixels(
    conversation: Conversation, max_pixels: int, tenant: str, images: ScaledImages
) -> Conversation:
    """Return the conversation with every image of more pixels scaled down to so many."""
    sides = _sides_over(conversation, max_pixels)
    if not sides:
        return conversation
    smaller = await smaller_images(conversation, sides, tenant, images)
    return age(conversation, Treatments(scaled=sides), smaller=smaller)


def _sides_over(conversation: Conversation, max_pixels: int) -> dict[Place, int]:
    """Return the images with more pixels, each with the longer side that it may have."""
    sides: dict[Place, int] = {}
    for index, origin in enumerate(conversation.origins):
        message = conversation.messages[index]
        if origin is None or type(message.content) not in (list, dict):
            continue
        numbers = {slot.path: number for number, slot in enumerate(media_slots(message))}
        for medium in message.media():
            size = image_size(medium.data) if medium.kind == "image" and medium.is_inline else None
            if size is not None and size.width * size.height > max_pixels:
                place = Place(origin, numbers[medium.path])
                sides[place] = side_of_pixels(size, max_pixels)
    return sides


def _images_at(conversation: Conversation, places: frozenset[Place]) -> dict[Place, str]:
    """Return the base64 of the inline images at these places."""
    origins = {place.origin for place in places}
    found: dict[Place, str] = {}
    for index, origin in enumerate(conversation.origins):
        if origin is None or origin not in origins:
            continue
        message = conversation.messages[index]
        media = {medium.path: medium for medium in message.media()}
        for number, slot in enumerate(media_slots(message)):
            place, medium = Place(origin, number), media.get(slot.path)
            if place in places and medium is not None and medium.is_inline:
                base64 = base64_of(medium.data)
                if base64 is not None:
                    found[place] = base64
    return found
