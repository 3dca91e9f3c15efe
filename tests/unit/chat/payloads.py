"""Texts with base64 as tools return it, and texts that only look like it."""

import base64
import json
import random
import textwrap
import uuid

_RANDOM = random.Random(20_26)

PROSE = "The tool ran without an error, and this is what it found in the folder:\n" * 15
BYTES = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + _RANDOM.randbytes(2_985)
ENCODED = base64.b64encode(BYTES).decode()
URL_SAFE = base64.urlsafe_b64encode(BYTES).decode()
WRAPPED = base64.encodebytes(BYTES).decode()
PEM = "\n".join(textwrap.wrap(ENCODED, 64))

# A text around the base64 of `BYTES`: what stays of it before and after.
WITH_BASE64 = {
    "image in markdown": ("![shot](", f"data:image/png;base64,{ENCODED}", ") as you asked"),
    "image in HTML": ('<img src="', f"data:image/png;charset=x;base64,{ENCODED}", '" alt="a">'),
    "mail": ("Content-Transfer-Encoding: base64\n\n", WRAPPED.strip(), "\n--boundary--"),
    "mail with CRLF": ("a: b\r\n\r\n", WRAPPED.strip().replace("\n", "\r\n"), "\r\n"),
    "PEM": ("-----BEGIN CERTIFICATE-----\n", PEM, "\n-----END CERTIFICATE-----\nDone"),
    "output of base64": ("$ base64 a.png\n", WRAPPED.strip(), "\n$ echo ok\nok"),
    "JSON": ('{"path": "a.png", "content": "', ENCODED, '", "encoding": "base64"}'),
    "JSON with lines": ('{"content": "', json.dumps(WRAPPED.strip())[1:-1], '\\n", "size": 1}'),
    "JSON with escaped slashes": ('{"content": "', ENCODED.replace("/", "\\/"), '"}'),
    "base64url": ('{"data": "', URL_SAFE, '", "size": 1}'),
    "variable": ("TLS_KEY=", ENCODED, "\nTLS_PORT=443"),
    "JavaScript": ("const wasm = Buffer.from('", ENCODED, "', 'base64');"),
}


def _hash(size: int) -> str:
    return base64.b64encode(_RANDOM.randbytes(size)).decode()


_SYMBOL = "_ZNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE6appendEPKcm"
_MINIFIED = (
    "!function(e,t){e.exports=t()}(this,function(){return function(e){var t={};function n(r){"
    "if(t[r])return t[r].exports;var o=t[r]={i:r,l:!1,exports:{}};return e[r].call(o.exports)}}"
)
WITHOUT_BASE64 = {
    "code": "    def has_nothing_to_do(self, shape: MessageFeatures) -> bool:\n" * 100,
    "minified JavaScript": _MINIFIED * 30,
    "hex": _RANDOM.randbytes(3_000).hex(),
    "hex in capitals": _RANDOM.randbytes(3_000).hex().upper(),
    "hex lines": "\n".join(textwrap.wrap(_RANDOM.randbytes(3_000).hex(), 60)),
    "hex dump": "\n".join(f"{n:08x}: {_RANDOM.randbytes(16).hex(' ', 2)}  ..." for n in range(99)),
    "long path": "/" + "/".join(["usr", "lib", "node_modules", "Some", "Package2", "dist"] * 60),
    "UUIDs": "\n".join(str(uuid.UUID(bytes=_RANDOM.randbytes(16))) for _ in range(100)),
    "UUIDs in one line": "-".join(str(uuid.UUID(int=n**18)) for n in range(100)),
    "lock file": "\n".join(f'  integrity: "sha512-{_hash(64)}",' for _ in range(50)),
    "list of hashes": "\n".join(_hash(64) for _ in range(50)),
    "list of SRI hashes": "\n".join(f"sha384-{_hash(48)}" for _ in range(50)),
    "SHA-256 sums": "\n".join(_RANDOM.randbytes(32).hex() for _ in range(50)),
    "mangled names": f"{_SYMBOL * 5}\n" * 20,
    "protein": "\n".join("".join(_RANDOM.choices("ACDEFGHIKLMNPQRSTVWY", k=60)) for _ in "x" * 40),
    "names": "\n".join(f"testCase{n}ReturnsTheSameObject" for n in range(200)),
    "camel case": "ReturnTheSameObjectIfThereIsNothing2Do" * 40,
    "drawn lines": f"{'-' * 300}\n{'=' * 300}\n{'_' * 300}\n" * 4,
    "one letter": "x" * 3_000,
    "digits": "".join(str(n) for n in range(2_000)),
    "short values": "\n".join(f"key{n}: {_hash(140)}" for n in range(30)),
    "text of a data URL": "data:text/html,%3Ch1%3EHello%3C%2Fh1%3E " * 40,
}
