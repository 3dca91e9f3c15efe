"""The error responses of the demo model, as vLLM writes them."""


class DemoError(Exception):
    """A refused request, with vLLM's message in OpenAI's error format."""

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str | None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "error": {"message": message, "type": kind, "param": param, "code": status},
        }


def bad_request(message: str, param: str | None = None, value: int | None = None) -> DemoError:
    """Return the refusal of a field, with its name and value at the end, as vLLM does."""
    if value is not None:
        message = f"{message} (parameter={param}, value={value})"
    elif param is not None:
        message = f"{message} (parameter={param})"
    return DemoError(message, param=param)


def invalid(kind: str, place: str, complaint: str, seen: object) -> DemoError:
    """Return the refusal of a malformed body, in the words of pydantic inside vLLM."""
    found = {"type": kind, "loc": place, "msg": complaint, "input": shown(seen)}
    return DemoError(f"1 validation error:\n  {found}", kind="Bad Request", param=place)


def invalid_json(reason: str, position: int) -> DemoError:
    """Return the refusal of invalid JSON, with the position of the error."""
    place = f"body.{position}"
    found = {
        "type": "json_invalid",
        "loc": place,
        "msg": "JSON decode error",
        "input": "<dict of 0 items>",
        "ctx": {"error": reason},
    }
    return DemoError(f"1 validation error:\n  {found}", kind="Bad Request", param=place)


def not_found(message: str, param: str | None = None) -> DemoError:
    """Return the refusal of an unknown path or model."""
    return DemoError(message, status=404, kind="NotFoundError", param=param)


def wrong_method() -> DemoError:
    """Return the refusal of a method that the path does not support."""
    return DemoError("Method Not Allowed", status=405, kind="MethodNotAllowedError", param=None)


def shown(value: object) -> str:
    """Return the size of a container, or any other value, shortened."""
    if isinstance(value, dict | list):
        return f"<{type(value).__name__} of {len(value)} items>"
    return str(value)[:100]
