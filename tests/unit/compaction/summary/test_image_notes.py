"""What images showed is in every fold: in the notes, taken from what the assistant said of them."""

from chat_proxy.compaction.media_notes import media_note
from chat_proxy.compaction.summary.fold_text import FoldContent, fold_text, images_in
from chat_proxy.compaction.summary.notes.select import notes
from chat_proxy.compaction.summary.notes.units import IMAGE, NumberedMessage, units_of
from tests.unit.chat.shapes import Fields, calls, conversation, image, result, says, text, user
from tests.unit.compaction.planner.views import quarter


def numbered(*messages: Fields) -> list[NumberedMessage]:
    return list(enumerate(conversation(*messages).messages))


def album(photos: int) -> list[NumberedMessage]:
    """So many photos, each with an answer that names one thing only."""
    pairs = (
        (user([text("What is it?"), image()]), says(f"It shows the harbour at Name{number}."))
        for number in range(photos)
    )
    return numbered(*(message for pair in pairs for message in pair))


def test_what_the_user_showed_is_a_required_note() -> None:
    [unit] = [unit for unit in units_of(album(1), {}) if unit.speaker == IMAGE]

    assert unit.is_required
    assert unit.text == "1x1: shows harbour Name0."


def test_what_a_tool_showed_competes_with_all_else() -> None:
    given = numbered(user("go"), calls("a"), result("a", [image()]), says("A form."))

    [unit] = [unit for unit in units_of(given, {}) if unit.speaker == IMAGE]
    assert not unit.is_required


def test_notes_tell_about_every_image_even_if_there_is_little_room() -> None:
    found = notes(album(12), {}, "", 420, quarter)

    assert all(f"#{2 * number} image: " in found for number in range(12))
    assert quarter(found) <= 420


def test_what_a_summary_says_already_is_not_noted_again() -> None:
    known = "The photo (1x1) shows the harbour at Name0."

    assert "image: " not in notes(album(1), {}, known, 400, quarter)


def test_a_fold_that_comes_back_still_tells_about_its_images() -> None:
    first = fold_text(FoldContent(album(2), {}), 800, quarter)
    [one, two] = images_in(first)
    back = [(0, message) for message in conversation(*map(user, map(note_of, (one, two)))).messages]

    again = fold_text(FoldContent(numbered(user("On."), says("Ok.")), {}, noted=back), 800, quarter)

    assert "Name0" in one
    assert "Name0" in again
    assert "Name1" in again


def note_of(told: str) -> str:
    return media_note("application/octet-stream", told)
