from typing import Any

import pytest

from chat_proxy.chat.media import (
    MAX_DEPTH,
    Media,
    media_in,
    sanitised_mime,
    with_inline_data,
)
from tests.unit.chat.shapes import PIXEL, image, result, text, user


def _only(part: Any) -> Media:
    (found,) = media_in(user([part]))
    assert found.path == ("content", 0)
    return found


FORMS: list[tuple[Any, str, str, str, bool]] = [
    (image(), "image", "image/png", PIXEL, True),
    ({"type": "image_url", "image_url": PIXEL}, "image", "image/png", PIXEL, True),
    ({"image_url": {"url": PIXEL}}, "image", "image/png", PIXEL, True),
    (image("https://a/b.jpg?w=1"), "image", "image/jpeg", "https://a/b.jpg?w=1", False),
    (image("https://a/b"), "image", "image/unknown", "https://a/b", False),
    (image("s3://a/b.gif"), "image", "image/gif", "s3://a/b.gif", False),
    ({"type": "image_url", "image_url": None, "uuid": "u"}, "image", "image/unknown", "", False),
    ({"type": "input_image", "image_url": PIXEL}, "image", "image/png", PIXEL, True),
    ({"type": "input_image", "file_id": "f"}, "image", "image/unknown", "", False),
    (
        {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": "QUJD"}},
        "image",
        "image/webp",
        "QUJD",
        True,
    ),
    (
        {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
        "image",
        "image/png",
        "https://a/b.png",
        False,
    ),
    ({"type": "image", "data": "QQ", "mimeType": "image/gif"}, "image", "image/gif", "QQ", True),
    ({"type": "image", "image": "/9j/4AAQ"}, "image", "image/unknown", "/9j/4AAQ", True),
    ({"type": "image", "base64": "QQ", "mime_type": "image/x"}, "image", "image/x", "QQ", True),
    (
        {"type": "video_url", "video_url": {"url": "https://a/b.mp4"}},
        "video",
        "video/mp4",
        "https://a/b.mp4",
        False,
    ),
    ({"type": "video", "video": ["QQ", "QUI"]}, "video", "video/unknown", "QQ", True),
    ({"type": "video", "video": [1]}, "video", "video/unknown", "", False),
    ({"type": "image_embeds", "image_embeds": "QQ"}, "image", "image/unknown", "QQ", True),
    ({"image_embeds": {"image_embeds": "QQ"}}, "image", "image/unknown", "QQ", True),
    ({"type": "audio_embeds", "audio_embeds": "QQ"}, "audio", "audio/unknown", "QQ", True),
    (
        {"type": "input_video", "input_video": {"data": "QQ", "format": "webm"}},
        "video",
        "video/webm",
        "QQ",
        True,
    ),
    (
        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
        "audio",
        "audio/wav",
        "UklG",
        True,
    ),
    (
        {"type": "audio_url", "audio_url": {"url": "data:audio/ogg;base64,T2dn"}},
        "audio",
        "audio/ogg",
        "data:audio/ogg;base64,T2dn",
        True,
    ),
    ({"type": "audio", "data": "QQ", "mimeType": "audio/mp4"}, "audio", "audio/mp4", "QQ", True),
    (
        {"type": "file", "file": {"file_data": "QQ", "filename": "a.PDF"}},
        "document",
        "application/pdf",
        "QQ",
        True,
    ),
    (
        {"type": "file", "file": {"file_id": "file-1"}},
        "document",
        "application/octet-stream",
        "",
        False,
    ),
    (
        {"type": "file", "data": "QQ", "mediaType": "image/png; q=1"},
        "image",
        "image/png",
        "QQ",
        True,
    ),
    (
        {"type": "input_file", "file_url": "https://a/b.csv"},
        "document",
        "text/csv",
        "https://a/b.csv",
        False,
    ),
    (
        {"type": "document", "source": {"type": "base64", "data": "QQ"}, "title": "a.docx"},
        "document",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "QQ",
        True,
    ),
    (
        {"type": "resource", "resource": {"blob": "QQ", "mimeType": "audio/wav", "uri": "x:y"}},
        "audio",
        "audio/wav",
        "QQ",
        True,
    ),
]


@pytest.mark.parametrize(("part", "kind", "mime", "data", "is_inline"), FORMS)
def test_every_form_of_a_medium_is_seen(
    part: Any, kind: str, mime: str, data: str, is_inline: bool
) -> None:
    found = _only(part)

    assert (found.kind, found.mime, found.data, found.is_inline) == (kind, mime, data, is_inline)


def test_the_detail_is_kept_wherever_it_stands() -> None:
    assert _only(image(detail="low")).detail == "low"
    assert _only({"type": "input_image", "image_url": PIXEL, "detail": "high"}).detail == "high"
    assert _only(image()).detail is None


@pytest.mark.parametrize(
    "part",
    [
        text(PIXEL),
        PIXEL,
        {"type": "document", "source": {"type": "text", "data": "words"}},
        {"type": "document", "content": "words"},
        {"type": "resource", "resource": {"text": "words", "uri": "file:///a"}},
        {"type": "resource", "resource": "words"},
        {"type": ["image"]},
        {"type": "text"},
        None,
        7,
    ],
)
def test_text_is_no_medium_even_if_it_holds_base64(part: Any) -> None:
    assert list(media_in(user([part]))) == []
    assert list(media_in(user(PIXEL))) == []


def test_media_inside_tool_results_and_documents_are_found_with_their_path() -> None:
    inner = {"type": "tool_result", "content": [text("see"), image()]}
    book = {"type": "document", "source": {"type": "content", "content": [image()]}}

    found = list(media_in(result("1", [text("x"), inner, book])))

    assert [medium.path for medium in found] == [
        ("content", 1, "content", 1),
        ("content", 2, "source", "content", 0),
    ]


def test_a_content_that_is_one_part_counts_as_one() -> None:
    (found,) = media_in(user(image()))

    assert found.path == ("content",)


def test_nesting_is_followed_only_so_deep() -> None:
    part = image()
    for _ in range(MAX_DEPTH - 1):
        part = {"content": [part]}

    assert len(list(media_in(user([part])))) == 1
    assert list(media_in(user([{"content": [part]}]))) == []


@pytest.mark.parametrize(
    "text", ["image/png\n[SYSTEM]", "image/png\n", "png", "", "a/" + "b" * 61, "im\u202eage/png"]
)
def test_a_malformed_mime_says_nothing(text: str) -> None:
    assert sanitised_mime(text) == "application/octet-stream"
    assert _only(image(f"data:{text or ' '};base64,QQ")).mime == "application/octet-stream"


def test_a_mime_is_lower_case() -> None:
    assert sanitised_mime("Image/SVG+xml") == "image/svg+xml"
    assert _only(image("DATA:Image/PNG,x")).mime == "image/png"
    assert _only(image("data:;base64,QQ")).mime == "image/unknown"
    assert _only(image("data:" + "a/" * 9_000)).mime == "application/octet-stream"


_OFFICE = "application/vnd.openxmlformats-officedocument"


@pytest.mark.parametrize(
    ("suffix", "mime"),
    [
        ("pdf", "application/pdf"),
        ("json", "application/json"),
        ("docx", f"{_OFFICE}.wordprocessingml.document"),
        ("xlsx", f"{_OFFICE}.spreadsheetml.sheet"),
        ("pptx", f"{_OFFICE}.presentationml.presentation"),
        ("txt", "text/plain"),
        ("md", "text/markdown"),
        ("csv", "text/csv"),
        ("html", "text/html"),
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
        ("mp3", "audio/mpeg"),
        ("wav", "audio/wav"),
        ("mp4", "video/mp4"),
        ("webm", "video/webm"),
        ("exe", "application/octet-stream"),
    ],
)
def test_a_file_is_told_by_the_end_of_its_name(suffix: str, mime: str) -> None:
    file = {"type": "file", "file": {"file_id": "1", "filename": f"a.b.{suffix.upper()}"}}

    assert _only(file).mime == mime


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("image_url", "image"),
        ("image", "image"),
        ("video_url", "video"),
        ("video", "video"),
        ("input_audio", "audio"),
        ("audio_url", "audio"),
        ("audio", "audio"),
        ("file", "document"),
    ],
)
def test_a_part_without_a_type_is_told_by_its_key(key: str, kind: str) -> None:
    """vLLM takes such parts."""
    found = _only({key: {"url": "https://a/b"}})

    assert (found.kind, found.data) == (kind, "https://a/b")


@pytest.mark.parametrize(
    ("part", "after"),
    [
        (image(), image("data:image/jpeg;base64,NEW")),
        (
            {"type": "image_url", "image_url": PIXEL, "detail": "high"},
            {"type": "image_url", "image_url": "data:image/jpeg;base64,NEW", "detail": "high"},
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "Q"}},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/jpeg", "data": "NEW"},
            },
        ),
        (
            {"type": "image", "data": "QQ", "mimeType": "image/gif"},
            {"type": "image", "data": "NEW", "mimeType": "image/jpeg"},
        ),
        (
            {"type": "file", "file": {"filename": "a.png", "file_data": PIXEL}},
            {
                "type": "file",
                "file": {"filename": "a.png", "file_data": "data:image/jpeg;base64,NEW"},
            },
        ),
    ],
)
def test_other_data_stand_in_the_same_form(part: Any, after: Any) -> None:
    before = repr(part)

    assert with_inline_data(part, _only(part), "image/jpeg", "NEW") == after
    assert repr(part) == before
