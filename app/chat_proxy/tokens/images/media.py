"""The tokens of one media item."""

from chat_proxy.chat.media import Media
from chat_proxy.tokens.images.tokens import image_tokens
from chat_proxy.tokens.overheads import CountingRules


def media_tokens(medium: Media, rules: CountingRules) -> int:
    """Count one media item: images by formula, all others by a flat rate."""
    match medium.kind:
        case "image":
            data = medium.data if medium.is_inline else ""
            return image_tokens(data, medium.detail, rules.image_family, rules.image_tokens)
        case "document":
            return rules.document_tokens
        case "audio":
            return rules.audio_tokens
        case "video":
            return rules.video_tokens
