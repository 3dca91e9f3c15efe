class DemoError(Exception):
    """A request the model refuses, in vLLM's words and OpenAI's shape."""

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str | None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = {
            "error": {"message": message, "type": kind, "param": param, "code": status},
        }


def bad_request(message: str, param: str | None = None, value: int | None = None) -> DemoError:
    """Refuse a field by its value, and name both at the end as vLLM does."""
    if value is not None:
        message = f"{message} (parameter={param}, value={value})"
    elif param is not None:
        message = f"{message} (parameter={param})"
    return DemoError(message, param=param)


def invalid(kind: str, place: str, complaint: str, seen: object) -> DemoError:
    """Refuse a body whose form is wrong, as pydantic words it inside vLLM."""
    found = {"type": kind, "loc": place, "msg": complaint, "input": shown(seen)}
    return DemoError(f"1 validation error:\n  {found}", kind="Bad Request", param=place)


def invalid_json(reason: str, position: int) -> DemoError:
    """Refuse bytes that are not JSON, and say where they stop being it."""
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
    """Refuse a path or a model that is not here."""
    return DemoError(message, status=404, kind="NotFoundError", param=param)


def wrong_method() -> DemoError:
    """Refuse a method that the path does not take."""
    return DemoError("Method Not Allowed", status=405, kind="MethodNotAllowedError", param=None)


def shown(value: object) -> str:
    """Name a container by its size and show anything else, shortened."""
    if isinstance(value, dict | list):
        return f"<{type(value).__name__} of {len(value)} items>"
    return str(value)[:100]
