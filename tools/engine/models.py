"""Tiny models without weights, made here: configurations, tokenizers, chat templates.

Runs under the engine's own Python (`python -m tools.engine.models FOLDER`); the engine draws the
weights at random when it loads them.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from tools.engine.vocabularies import tekken, trained

_TEXT: Final[dict[str, Any]] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "use_sliding_window": False,
}
_VISION: Final[dict[str, Any]] = {
    "depth": 2,
    "embed_dim": 64,
    "hidden_size": 128,
    "hidden_act": "quick_gelu",
    "mlp_ratio": 2,
    "num_heads": 2,
    "in_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
_PIXELS: Final[dict[str, Any]] = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2VLProcessor",
    "min_pixels": 56 * 56,
    "max_pixels": 28 * 28 * 16_384,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}

LENIENT: Final = """\
{%- if tools %}<|im_start|>system
# Tools

Some functions are there to help with what the user asks for; call one or several of them, or none.
What each is for and how it is called stands between <tools></tools>, one function in a line:
<tools>
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}</tools>

For every call write its function's name and the arguments as one JSON object between
<tool_call></tool_call>, like this:
<tool_call>
{"name": "the name of the function", "arguments": {"name of an argument": "its value"}}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% elif message.content %}
{%- for part in message.content %}
{%- if part.type in ('image', 'image_url') %}<|vision_start|><|image_pad|><|vision_end|>
{%- else %}{{ part.text }}{% endif %}
{%- endfor %}{% endif %}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

STRICT: Final = """\
{%- set state = namespace(turn=0) %}
{%- for message in messages %}
{%- if message.role == 'system' %}
{%- if not loop.first %}{{ raise_exception('System message must be at the beginning.') }}{% endif %}
{%- elif message.role not in ('user', 'assistant') %}
{{- raise_exception('Only user and assistant roles are supported!') }}
{%- elif (message.role == 'user') != (state.turn % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- else %}{% set state.turn = state.turn + 1 %}{% endif -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def text_model(tokenizer: Any) -> dict[str, Any]:
    """Return the configuration of a two-layer Qwen2."""
    return {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": tokenizer.get_vocab_size(),
        "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
        **_TEXT,
    }


def vision_model(tokenizer: Any) -> dict[str, Any]:
    """Return the configuration of a two-layer Qwen2-VL."""
    ids = {
        f"{name}_token_id": tokenizer.token_to_id(token)
        for name, token in (
            ("vision_start", "<|vision_start|>"),
            ("vision_end", "<|vision_end|>"),
            ("image", "<|image_pad|>"),
            ("video", "<|video_pad|>"),
        )
    }
    return {
        **text_model(tokenizer),
        "architectures": ["Qwen2VLForConditionalGeneration"],
        "model_type": "qwen2_vl",
        "rope_scaling": {"type": "mrope", "mrope_section": [4, 6, 6]},
        "vision_config": _VISION,
        **ids,
    }


def write(
    folder: Path, tokenizer: Any, template: str, *, sees: bool = False, is_tekken: bool = False
) -> None:
    """Write one model's files.

    Without its flag Tekken is loaded with Qwen's pattern, which cuts Hindi before every vowel sign:
    that is the vocabulary of no model in use.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = vision_model(tokenizer) if sees else text_model(tokenizer)
    documents = {
        "config.json": config,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": 1_000_000,
            "clean_up_tokenization_spaces": False,
            "fix_mistral_regex": is_tekken,
            "chat_template": template,
        },
        **({"preprocessor_config.json": _PIXELS} if sees else {}),
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=1))
    tokenizer.save(str(folder / "tokenizer.json"))


def write_all(folder: Path) -> None:
    """Write the models: two with a small vocabulary, two with one that is in use."""
    small, large = trained(), tekken()
    write(folder / "lenient", small, LENIENT)
    write(folder / "strict", small, STRICT)
    write(folder / "tekken", large, LENIENT, is_tekken=True)
    write(folder / "vision", large, LENIENT, sees=True, is_tekken=True)


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
