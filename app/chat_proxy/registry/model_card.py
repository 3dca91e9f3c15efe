from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ModelCard:
    """What the registry defines for a model; None leaves it to discovery and the settings."""

    name: str
    aliases: tuple[str, ...] = ()
    base_url: str | None = None
    api_key_env: str | None = None
    context_window: int | None = None
    max_output_tokens: int | None = None
    vision: bool | None = None
    encoding: str | None = None
    image_family: str | None = None
    overrides: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Return every name by which clients may request the model."""
        return (self.name, *self.aliases)
