"""Requests that two servers could read differently, each with the one outcome that is allowed."""

from dataclasses import dataclass

from tests.support.live import chat_body

CHAT = "/v1/chat/completions"
BODY = chat_body()
SMUGGLED = b"GET /v1/models/smuggled HTTP/1.1\r\nhost: proxy\r\n\r\n"


@dataclass(frozen=True)
class Case:
    """A raw request with its one allowed outcome: a refusal, or exactly this at the upstream."""

    raw: bytes
    status: int
    upstream: tuple[str, str, bytes] | None = None


def head(*lines: str, first: str = f"POST {CHAT} HTTP/1.1", host: str = "host: proxy") -> bytes:
    return "\r\n".join(line for line in (first, host, *lines, "", "")).encode("latin-1")


def headless(*lines: str, first: str = f"POST {CHAT} HTTP/1.1") -> bytes:
    return "\r\n".join((first, *lines, "", "")).encode("latin-1")


def chunks(body: bytes = BODY, size: bytes = b"", end: bytes = b"0\r\n\r\n") -> bytes:
    return (size or b"%x" % len(body)) + b"\r\n" + body + b"\r\n" + end


LENGTH = f"content-length: {len(BODY)}"
CHUNKED = "transfer-encoding: chunked"


def refused(raw: bytes, status: int = 400) -> Case:
    return Case(raw, status)


def passed(raw: bytes, method: str = "POST", target: str = CHAT, body: bytes = BODY) -> Case:
    return Case(raw, 200, (method, target, body))


def framed(*lines: str) -> Case:
    """Bad headers on a request that is otherwise good."""
    return refused(head(LENGTH, *lines) + BODY + SMUGGLED)


def encoded(line: str) -> Case:
    """A transfer encoding that somebody else could take for chunked."""
    return refused(head(line) + chunks() + SMUGGLED)


def measured(value: str) -> Case:
    """A length that is none."""
    return refused(head(f"content-length: {value}") + BODY + SMUGGLED)


def in_chunks(raw: bytes, status: int = 400) -> Case:
    return refused(head(CHUNKED) + raw, status)


GET_MODEL = "GET /v1/models/fake HTTP/1.1"

CASES = {
    # Two lengths
    "CL.TE": refused(head(LENGTH, CHUNKED) + chunks() + SMUGGLED),
    "TE.CL": refused(head(CHUNKED, LENGTH) + chunks() + SMUGGLED),
    "CL.0 with TE": refused(head("content-length: 0", CHUNKED) + chunks() + SMUGGLED),
    "CL.TE with the smuggled request in the last chunk": refused(
        head("content-length: 5", CHUNKED) + b"0\r\n\r\n" + SMUGGLED
    ),
    # One encoding, written so that some do not see it
    "TE after a tab": passed(head("transfer-encoding:\tchunked") + chunks()),
    "TE in capitals": passed(head("TRANSFER-ENCODING: CHUNKED") + chunks()),
    "TE without a space": passed(head("transfer-encoding:chunked") + chunks()),
    "TE after a vertical tab": encoded("transfer-encoding: \x0bchunked"),
    "TE before a vertical tab": encoded("transfer-encoding: chunked\x0b"),
    "TE before a space": encoded("transfer-encoding: chunked "),
    "TE before a NUL": encoded("transfer-encoding: chunked\x00"),
    "TE with a space before the name": encoded(" transfer-encoding: chunked"),
    "TE with a space before the colon": encoded("transfer-encoding : chunked"),
    "TE with a tab before the colon": encoded("transfer-encoding\t: chunked"),
    "TE twice": encoded("transfer-encoding: chunked\r\ntransfer-encoding: chunked"),
    "TE twice, the second identity": encoded(f"{CHUNKED}\r\ntransfer-encoding: identity"),
    "TE twice, the first identity": encoded(f"transfer-encoding: identity\r\n{CHUNKED}"),
    "TE chunked, identity": encoded("transfer-encoding: chunked, identity"),
    "TE identity, chunked": encoded("transfer-encoding: identity, chunked"),
    "TE gzip, chunked": encoded("transfer-encoding: gzip, chunked"),
    "TE quoted": encoded('transfer-encoding: "chunked"'),
    "TE with a parameter": encoded("transfer-encoding: chunked;q=1"),
    "TE with a comma": encoded("transfer-encoding: chunked,"),
    "TE xchunked": encoded("transfer-encoding: xchunked"),
    "TE identity": encoded("transfer-encoding: identity"),
    "TE empty": encoded("transfer-encoding:"),
    "TE folded": encoded("transfer-encoding:\r\n chunked"),
    "TE in another header's fold": encoded("x: y\r\n transfer-encoding: chunked"),
    "TE behind a bare LF": encoded("x: y\ntransfer-encoding: chunked"),
    "TE behind a bare CR": encoded("x: y\rtransfer-encoding: chunked"),
    "TE with an underscore is another header": passed(
        head(LENGTH, "transfer_encoding: chunked") + BODY
    ),
    "TE in HTTP/1.0": refused(head(CHUNKED, first=f"POST {CHAT} HTTP/1.0") + chunks() + SMUGGLED),
    # Lengths
    "CL twice the same": framed(LENGTH),
    "CL twice, different": framed("content-length: 1"),
    "CL negative": measured("-1"),
    "CL with a plus": measured(f"+{len(BODY)}"),
    "CL in hex": measured(hex(len(BODY))),
    "CL as a list": measured(f"{len(BODY)}, {len(BODY)}"),
    "CL with a space inside": measured("1 0"),
    "CL empty": measured(""),
    "CL with a point": measured(f"{len(BODY)}.0"),
    "CL quoted": measured(f'"{len(BODY)}"'),
    "CL with an underscore": measured("1_0"),
    "CL over 64 bits": measured("18446744073709551616"),
    "CL of a thousand digits": measured("9" * 1000),
    "CL just below 64 bits": refused(head("content-length: 18446744073709551615") + BODY, 413),
    "CL with a leading zero": passed(head(f"content-length: 0{len(BODY)}") + BODY),
    "CL between spaces": passed(head(f"content-length:   {len(BODY)}  ") + BODY),
    "CL too long": refused(head(f"content-length: {len(BODY) + 9}") + BODY, 408),
    # Header lines
    "obs-fold": framed("x-long: a\r\n b"),
    "bare LF everywhere": refused((head(LENGTH) + BODY).replace(b"\r\n", b"\n")),
    "bare LF behind the request line": refused(head(LENGTH).replace(b"\r\n", b"\n", 1) + BODY),
    "bare LF behind a header": framed("x: y\nx: z"),
    "bare LF before the body": refused(head(LENGTH)[:-2] + b"\n" + BODY),
    "bare CR in a value": framed("x: y\rz"),
    "bare CR in a name": framed("x\ry: z"),
    "NUL in a value": framed("x: y\x00z"),
    "NUL in a name": framed("x\x00y: z"),
    "control byte in a value": framed("x: y\x01z"),
    "control byte in a name": framed("x\x01y: z"),
    "DEL in a name": framed("x\x7f: z"),
    "high byte in a name": framed("x\xff: z"),
    "space in a name": framed("x y: z"),
    "space before the colon": framed("x : z"),
    "no colon": framed("just words"),
    "empty name": framed(": z"),
    "brackets in a name": framed("x[0]: z"),
    # Chunks
    "chunk size 0x": in_chunks(chunks(size=b"0x5")),
    "chunk size +": in_chunks(chunks(size=b"+%x" % len(BODY))),
    "chunk size -": in_chunks(chunks(size=b"-1")),
    "chunk size _": in_chunks(chunks(size=b"1_0")),
    "chunk size after a space": in_chunks(chunks(size=b" %x" % len(BODY))),
    "chunk size before a space": in_chunks(chunks(size=b"%x " % len(BODY))),
    "chunk size before a tab": in_chunks(chunks(size=b"%x\t" % len(BODY))),
    "chunk size empty": in_chunks(b"\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk size no number": in_chunks(chunks(size=b"xyz")),
    "chunk size over 64 bits": in_chunks(chunks(size=b"1" + b"0" * 16)),
    "chunk size with leading zeros": passed(head(CHUNKED) + chunks(size=b"000%x" % len(BODY))),
    "chunk extension": passed(head(CHUNKED) + chunks(size=b"%x;a=b" % len(BODY))),
    "chunk extension with LF": in_chunks(chunks(size=b"%x;a\nb" % len(BODY))),
    "chunk extension with CR": in_chunks(chunks(size=b"%x;a\rb" % len(BODY))),
    "chunk extension with a quoted line break": in_chunks(chunks(size=b'%x;a="\r\n"' % len(BODY))),
    "chunk size before a bare LF": in_chunks(b"%x\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk before a bare LF": in_chunks(b"%x\r\n%s\n0\r\n\r\n" % (len(BODY), BODY)),
    "chunk without a line end": in_chunks(b"%x\r\n%s0\r\n\r\n" % (len(BODY), BODY)),
    "chunk longer than it says": in_chunks(chunks(size=b"%x" % (len(BODY) - 1))),
    "last chunk with bare LF": in_chunks(chunks(end=b"0\n\n")),
    "last chunk without its empty line": in_chunks(chunks(end=b"0\r\n"), 408),
    "trailers that would decide": passed(
        head(CHUNKED)
        + chunks(
            end=b"0\r\nhost: evil\r\nexpect: 42\r\nauthorization: Bearer evil\r\n"
            b"x-evil: 1\r\nconnection: close\r\n\r\n"
        )
    ),
    "trailer with a length": in_chunks(chunks(end=b"0\r\ncontent-length: 9\r\n\r\n")),
    "trailer with an encoding": in_chunks(chunks(end=b"0\r\ntransfer-encoding: x\r\n\r\n")),
    "trailer folded": in_chunks(chunks(end=b"0\r\nx: y\r\n z\r\n\r\n")),
    "trailer without a colon": in_chunks(chunks(end=b"0\r\nGET / HTTP/1.1\r\n\r\n")),
    "trailer with a bare LF": in_chunks(chunks(end=b"0\r\nx: y\nz: a\r\n\r\n")),
    # Request lines
    "HTTP/0.9": refused(b"GET /v1/models/fake\r\n" + SMUGGLED),
    "HTTP/1.0": passed(headless(LENGTH, first=f"POST {CHAT} HTTP/1.0") + BODY + SMUGGLED),
    "HTTP/1.2": refused(head(LENGTH, first=f"POST {CHAT} HTTP/1.2") + BODY),
    "HTTP/2.0": refused(head(LENGTH, first=f"POST {CHAT} HTTP/2.0") + BODY),
    "HTTP/1.10": refused(head(LENGTH, first=f"POST {CHAT} HTTP/1.10") + BODY),
    "HTTP/11": refused(head(LENGTH, first=f"POST {CHAT} HTTP/11") + BODY),
    "http/1.1": refused(head(LENGTH, first=f"POST {CHAT} http/1.1") + BODY),
    "RTSP/1.0": refused(head(first="DESCRIBE /v1/models/fake RTSP/1.0") + SMUGGLED, 405),
    "HTTP/2's preface": refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 9),
    "TLS": refused(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x55" * 64),
    "two spaces": passed(head(LENGTH, first=f"POST  {CHAT} HTTP/1.1") + BODY),
    "tab in the request line": refused(head(LENGTH, first=f"POST\t{CHAT} HTTP/1.1") + BODY),
    "space in the target": refused(head(LENGTH, first=f"POST {CHAT} x HTTP/1.1") + BODY),
    "method in small letters": refused(head(LENGTH, first=f"post {CHAT} HTTP/1.1") + BODY),
    "unknown method": refused(head(LENGTH, first=f"SMUGGLE {CHAT} HTTP/1.1") + BODY),
    "NUL in the target": refused(head(LENGTH, first=f"POST {CHAT}\x00 HTTP/1.1") + BODY),
    "high byte in the target": refused(head(LENGTH, first=f"POST {CHAT}\xff HTTP/1.1") + BODY),
    "absolute form": refused(head(LENGTH, first=f"POST http://evil{CHAT} HTTP/1.1") + BODY),
    "authority form": refused(head(LENGTH, first="POST evil:80 HTTP/1.1") + BODY),
    "asterisk form": refused(head(first="OPTIONS * HTTP/1.1") + SMUGGLED),
    "CONNECT": refused(head(first="CONNECT evil:443 HTTP/1.1") + SMUGGLED),
    "CONNECT a path": refused(head(first=f"CONNECT {CHAT} HTTP/1.1") + SMUGGLED),
    "empty lines before the request": passed(b"\r\n\r\n" + head(LENGTH) + BODY),
    # Hosts
    "no Host": refused(headless(LENGTH) + BODY),
    "two Hosts": framed("host: evil"),
    "the same Host twice": framed("host: proxy"),
    "Host with a NUL": refused(head(LENGTH, host="host: a\x00b") + BODY),
    "Host empty": passed(head(LENGTH, host="host:") + BODY),
    "Host of somebody else": passed(head(LENGTH, host="host: evil:99999/../@x") + BODY),
    # What stands behind a request
    "h2c": passed(
        head(LENGTH, "connection: upgrade, http2-settings", "upgrade: h2c", "http2-settings: AAM")
        + BODY
        + SMUGGLED
    ),
    "h2c in chunks": passed(
        head(CHUNKED, "connection: Upgrade", "upgrade: h2c") + chunks() + SMUGGLED
    ),
    "websocket": passed(
        head("connection: upgrade", "upgrade: websocket", first=GET_MODEL) + SMUGGLED,
        "GET",
        "/v1/models/fake",
        b"",
    ),
    "upgrade with two lengths": refused(
        head(LENGTH, CHUNKED, "connection: upgrade", "upgrade: h2c") + chunks() + SMUGGLED
    ),
    "GET with a request as its body": passed(
        head(f"content-length: {len(SMUGGLED)}", first=GET_MODEL) + SMUGGLED,
        "GET",
        "/v1/models/fake",
        SMUGGLED,
    ),
    "a request behind connection: close": passed(
        head(LENGTH, "connection: close") + BODY + SMUGGLED
    ),
    "garbage behind a request": passed(head(LENGTH) + BODY + b"\x00\x01garbage\r\n\r\n" + SMUGGLED),
    "a body longer than it says": passed(head(LENGTH) + BODY + b"}}" + SMUGGLED),
}
