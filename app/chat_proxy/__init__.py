"""An OpenAI-compatible proxy that keeps any conversation inside its model's context window."""

__version__ = "0.2.0"
