"""Every fault the proxy is tested against: what is injected, and what is expected of it.

Group A: clients, B: the upstream, C: the summary model, D: the store, E: the process, F: security.
A test belongs to a row by its name: `test_a18_…`, or `test_b8_b9_…` for two rows.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """One fault."""

    name: str
    injected: str
    expected: str


CLIENT = (
    Row(
        "A1",
        "JSON that is malformed, empty, or followed by rubbish",
        "400 `invalid_json` with the place but no text; the upstream is never asked",
    ),
    Row("A2", "JSON that is no object", "400 `invalid_json_root`"),
    Row(
        "A3",
        "invalid UTF-8, UTF-16, a byte order mark",
        "400 `invalid_encoding`; a mark before good JSON is accepted and sent as it came",
    ),
    Row(
        "A4",
        "half an emoji: a lone surrogate",
        "200, forwarded as it came; U+FFFD in our own copies; "
        '`input_repaired_total{kind="surrogate"}`',
    ),
    Row("A5", "NaN, Infinity, 1e999", "400 `invalid_number`"),
    Row("A6", "whole numbers beyond 64 bits", "forwarded digit for digit"),
    Row("A7", "a number of 5,000 digits", "400 `invalid_number`"),
    Row(
        "A8",
        "a decisive key twice",
        "the last one is checked and only that one is sent; `dup_key_total`",
    ),
    Row(
        "A9",
        "nesting of 65 and of 100,000",
        "400 `too_deep` within 5 ms, before parsing",
    ),
    Row(
        "A10",
        "30 MB of empty objects",
        "400 `too_complex` from counting bytes; hardly more memory than the body itself",
    ),
    Row(
        "A11",
        "a body over the limit, announced or not",
        "413 `request_too_large`: before reading, or at the limit and then the end",
    ),
    Row(
        "A12",
        "a compressed request",
        "gzip and zstd are decoded within the limit of a body and forwarded decoded; 400 "
        "`invalid_content_encoding` if damaged; 415 `unsupported_content_encoding` for others",
    ),
    Row(
        "A13",
        "no content type, or one that a browser's form can send",
        "accepted as JSON, but 415 when it comes with an Origin",
    ),
    Row(
        "A14",
        "messages missing, empty, or of unknown shape",
        "passed unchanged for the upstream to judge; "
        '`compaction_skipped_total{reason="shape"}` where there is no list of messages',
    ),
    Row(
        "A15",
        "tool messages without calls, calls without results, one id twice",
        "forwarded as sent; no compaction cuts a pair",
    ),
    Row("A16", "unknown fields of a request", "kept as they are, also when the history changes"),
    Row(
        "A17",
        "a client that leaves while it sends",
        'nothing goes upstream; 499 in the log; `client_abort_total{phase="body"}`',
    ),
    Row(
        "A18",
        "a client that leaves before the first byte",
        "the upstream is let go within 250 ms; a summary others wait for goes on; phase `ttfb`",
    ),
    Row(
        "A19",
        "a client that leaves in mid-stream",
        "the upstream is let go within 250 ms; the usage so far is kept; phase `stream`",
    ),
    Row(
        "A20",
        "a client that stops reading, or reads slowly",
        "at most 128 KiB wait for it; cut off when nothing moves; `client_stall_total`; "
        "slow alone gets everything",
    ),
    Row(
        "A21",
        "headers or a body that drip or never come",
        "JSON 408 `request_timeout`, then closed; `slow_client_total{phase}`",
    ),
    Row(
        "A22",
        "a client that closes its sending side",
        "it has left, on every run: 499 in the log and no answer",
    ),
    Row(
        "A23",
        "requests in one go; Expect: 100-continue; Expect: 42",
        "answered in order; 100 and then 200; 417 `expectation_failed`",
    ),
    Row(
        "A24",
        "n of a thousand millions, max_tokens -1, stream as a word",
        '400 `invalid_value` for n with param "n"; the others are the upstream\'s to judge; '
        "only JSON's true asks for a stream",
    ),
    Row(
        "A25",
        "a body in chunks of one byte, chunks with long extensions",
        "accepted as far as it fits into the limit of a head; beyond, 400 when the chunks have "
        "fewer than 20 bytes on average",
    ),
)

UPSTREAM = (
    Row(
        "B1",
        "a refused connection",
        "502 `upstream_connect_error` within 100 ms; it counts for the breaker",
    ),
    Row("B2", "a host that answers no SYN", "504 `upstream_connect_timeout` at the limit"),
    Row(
        "B3",
        "an unknown name, a resolver that does not answer",
        "502 `upstream_dns_error` in time, the loop is never blocked; "
        "the last good address serves for 60 s",
    ),
    Row(
        "B4",
        "certificates that are expired, of another name or self-signed; no TLS at all",
        "502 `upstream_tls_error`, never tried without verification",
    ),
    Row(
        "B5",
        "a reused connection that was closed under us",
        'one retry on a fresh one, 200; `retry_total{reason="reused_conn"}`',
    ),
    Row(
        "B6",
        "a reset within the headers",
        "502 `upstream_reset`, not sent again: it may have been billed",
    ),
    Row(
        "B7",
        "a reset within a body",
        "502 `upstream_reset`, or a broken connection when too large to hold; never a short 200",
    ),
    Row(
        "B8",
        "a reset within a stream",
        "every byte so far, an error frame `upstream_reset` and `[DONE]`",
    ),
    Row(
        "B9",
        "a stream that ends without a finish reason or `[DONE]`",
        "an error frame `upstream_truncated`; `stream_truncated_total`",
    ),
    Row(
        "B10",
        "`[DONE]` without a finish reason, twice, or with more behind it",
        "passed; one `[DONE]` and nothing after it",
    ),
    Row(
        "B11",
        "an error as an event of the stream",
        "passed as it is and counted; as the first event it becomes a real status",
    ),
    Row(
        "B12",
        "silence before the first byte",
        "pings behind the headers; 504 `upstream_first_byte_timeout`, or its error frame",
    ),
    Row(
        "B13",
        "silence in mid-stream",
        "an error frame `upstream_idle_timeout`; the upstream is let go",
    ),
    Row(
        "B14",
        "a stream that drips byte by byte, without end",
        "each byte relayed within 50 ms at next to no cost; `upstream_total_timeout` at the limit",
    ),
    Row(
        "B15",
        "characters split, any line ends, comments, a line of 5 MB",
        "the same bytes; the tap never fails, and looks away from long lines; `sse_tap_off_total`",
    ),
    Row(
        "B16",
        "429 with and without Retry-After",
        "passed byte for byte, not sent again; side-queries wait by it; `upstream_429_total`",
    ),
    Row(
        "B17",
        "5xx, also as HTML",
        "passed byte for byte; the breaker counts none, as one request alone may cause it",
    ),
    Row(
        "B18",
        "'too long' after a compaction",
        "sent again smaller, at most twice, else the upstream's own error; "
        "`overflow_replay_total{result}`",
    ),
    Row(
        "B19",
        "a success without JSON or without events",
        "502 `upstream_invalid_response`; nothing of the body is logged",
    ),
    Row(
        "B20",
        "JSON where a stream was asked for, and the other way round",
        "passed with the upstream's content type",
    ),
    Row(
        "B21",
        "an answer without end",
        "relayed in flat memory; an answer that is no stream is cut at the limit with "
        "`upstream_response_too_large`",
    ),
    Row(
        "B22",
        "an encoded answer, a bomb in a side-query's answer",
        "identity is asked for; what is encoded all the same passes raw; "
        "a side-query refuses it undecoded",
    ),
    Row(
        "B23",
        "an answer that ends with its connection",
        "relayed; a stream needs an end of its own, as in B9",
    ),
    Row(
        "B24",
        "trailers, interim answers, absurd or endless headers, unknown transfer encodings, "
        "no HTTP at all",
        "dropped, or 502 `upstream_invalid_response`; never a 500, never a control character",
    ),
    Row(
        "B25",
        "redirects",
        "502 `upstream_redirect` without the location, never followed",
    ),
    Row(
        "B26",
        "204, 304, a length that does not hold",
        "502; no byte of it reaches another request",
    ),
    Row(
        "B27",
        "five failed connections or resets in a row",
        "503 `upstream_unavailable` with Retry-After within 10 ms, one in ten still tries; "
        "one probe after 30 s, doubled up to 300 s; `upstream_breakers_open`",
    ),
    Row(
        "B28",
        "a prompt that is cut to the window without a word, as Ollama does",
        "the window is learned from `usage`; a whole answer is asked for again compacted and never "
        "becomes an error, a stream is relayed and the next request fits; "
        "`silent_truncation_total{result}`",
    ),
    Row(
        "B29",
        "a second answer, or an end, that reaches a kept connection before the next request",
        "the socket is looked at when the request is written: closed, and the next connection "
        "is taken; no byte of it reaches anybody, and it is no retry",
    ),
    Row(
        "B30",
        "an answer before the request was read, which is never read to its end",
        "the answer is passed and the connection closed, with and without TLS; "
        "the next request does not wait behind the rest",
    ),
    Row(
        "B31",
        "a kept connection that breaks while the upstream works on the request",
        "502 `upstream_reset`, not sent again; only a close at once, or before the request was "
        "sent to its end, is the B5 of a stale connection",
    ),
    Row(
        "B32",
        "10,000 idle connections that are too old",
        "closed a few at a time: nobody waits 5 ms for it",
    ),
    Row(
        "B33",
        "an answer on a new connection before anything was asked there",
        "502 `upstream_reset` without sending the request; no byte of it reaches anybody",
    ),
)

SUMMARY = (
    Row(
        "C1",
        "a summary model that does not answer in time",
        "`failed-open`: the original goes on at the limit; the next try after 1, 5, 15 "
        "minutes; `summaries_fail_total{reason}`",
    ),
    Row(
        "C2",
        "a summary model that refuses, fails or is away",
        "the original goes on at once; a tenant keeps Retry-After in all its chats, "
        "and asks no more after five failures",
    ),
    Row(
        "C3",
        "an empty summary",
        "refused, asked for twice more about less, then the original; nothing stored; one that "
        "says next to nothing, or says it in another script, is refused at once",
    ),
    Row("C4", "a refusal instead of a summary", "refused, never stored or shown as history"),
    Row(
        "C5",
        "a summary cut off at its length",
        "refused; asked for twice more about less, never without end",
    ),
    Row(
        "C6",
        "a summary nearly as long as what it replaces",
        "refused, and not tried again before the history has grown by a tenth",
    ),
    Row("C7", "a summary model that calls tools", "refused; no call is run or forwarded"),
    Row("C8", "reasoning in or instead of a summary", "stripped; what is then empty is C3"),
    Row(
        "C9",
        "a summary without its sections",
        "missing ones are filled with (none); if most are missing, one repair, then refused",
    ),
    Row(
        "C10",
        "many requests for one prefix at once",
        "one side-query, shared by all; `summaries_waits_total`",
    ),
    Row(
        "C11",
        "the client that asked first leaves",
        "the summary is finished, shared and stored",
    ),
    Row(
        "C12",
        "two replicas need one summary",
        "one holds the lease, the other waits for it or goes on; both send the same bytes",
    ),
    Row(
        "C13",
        "a span larger than the summary model's window",
        "it is summarised in parts at the same time, or the newest groups are left out and the "
        "boundary moves back with them",
    ),
    Row(
        "C14",
        "tool output that forges delimiters, roles and instructions",
        "no text rises to the system role, none leaves its delimiters",
    ),
    Row(
        "C15",
        "text that urges the summary to leave out the rules",
        "system and developer messages reach the upstream byte for byte",
    ),
    Row(
        "C16",
        "a summary with URLs or keys of its own making",
        "they are taken out; a summary full of them, or about something else, is refused",
    ),
    Row(
        "C17",
        "a summary model of another provider",
        "no media, no client key and no client header reaches it",
    ),
    Row(
        "C18",
        "turns after a compaction, and a restart",
        "the same prefix, byte for byte; `prefix_breaks_total` counts one",
    ),
    Row(
        "C19",
        "offloaded text whose id nobody can ask for; compacting what was fetched back",
        "an id is named only where the text is kept; our own notes are not cut again",
    ),
    Row("C20", "our summary sent back, edited", "its MAC fails: plain text of the user"),
)

STORE = (
    Row(
        "D1",
        "SQLite locked by another process",
        "reads go on; a write is given up after 250 ms; `store_error_total{op,kind}`",
    ),
    Row("D2", "a read that becomes a write", "never: writes begin as writes, on one thread"),
    Row(
        "D3",
        "a full disk, a full file",
        "reads go on, texts stay inline, ready but `degraded`; `store_degraded`",
    ),
    Row(
        "D4",
        "a file that is rubbish or cut short",
        "at the start moved aside, never deleted, a new one serves; later memory serves, "
        "`degraded`",
    ),
    Row(
        "D5",
        "a folder that is missing or cannot be written",
        "memory serves, and the log says why; a store that is required stops the start",
    ),
    Row("D6", "kill -9 within a write, forty times", "no acknowledged row lost, nothing corrupt"),
    Row(
        "D7",
        "cancelled readers",
        "no snapshot is held: the write-ahead log stays within 64 MiB; `store_wal_bytes`",
    ),
    Row(
        "D8",
        "Redis away, stalled, loading, full, moved",
        "250 ms once, then nothing; the local copies serve; `degraded` while it is away",
    ),
    Row(
        "D9",
        "foreign or altered bytes in the store",
        'their MAC fails: a miss, never used; `store_error_total{kind="integrity"}`',
    ),
    Row(
        "D10",
        "an older or newer schema",
        "an older one is migrated in one step, with a copy; a newer one left alone, memory serves",
    ),
    Row(
        "D11",
        "a PostgreSQL address",
        "there is no such store: one clear line and exit 2",
    ),
    Row(
        "D12",
        "offloaded texts that vanished, expired or are too many",
        "404 as for an unknown id; written whole or not at all; over the quota they stay inline",
    ),
    Row("D13", "a clock that jumps by a day", "nothing expires at once, nothing lives for ever"),
    Row(
        "D14",
        "a file with many originals of 2 MB",
        "a lookup of all seams stays within its 250 ms; nothing is summarised again",
    ),
    Row(
        "D15",
        "a tenant that keeps more than its share",
        "its own oldest texts go, in the store and in the archive; other tenants keep theirs",
    ),
)

PROCESS = (
    Row(
        "E1",
        "SIGTERM while 200 streams are open",
        "`/readyz` 503 at once, new requests for a grace, then nobody listens; short streams "
        "finish, long ones end with `server_shutting_down` and `[DONE]`; exit 0",
    ),
    Row("E2", "a second signal", "last frames at once, and the end within 2 s"),
    Row(
        "E3",
        "kill -9 within a write",
        "ready again as quickly as at first; no stale lock, no half file",
    ),
    Row(
        "E4",
        "a worker that crashes",
        "the others serve on, it is replaced within 5 s; `worker_deaths_total`",
    ),
    Row(
        "E5",
        "2,000 open streams, 10,000 aborts, a body of 32 MB",
        "60 KB a stream at most, 64 bytes an abort, descriptors and tasks as before; others wait "
        "20 ms at the 99th percentile, and 100 ms at most beside the large body",
    ),
    Row(
        "E6",
        "no file descriptor left",
        "half are kept for the upstream; newcomers beyond get 503 `overloaded` with Retry-After, "
        "far beyond they are broken off; no busy loop, and it recovers by itself",
    ),
    Row("E7", "more bytes than may be held", "503 `overloaded` with Retry-After"),
    Row(
        "E8",
        "three times the load",
        "at least 90 % of the goodput; refusals within 100 ms",
    ),
    Row(
        "E9",
        "a blocked event loop",
        "after 2 s one line with its place, no values; `/livez` 503 after 10 s, and of several "
        "workers that one is replaced; `loop_lag_seconds`",
    ),
    Row(
        "E10",
        "a mistake in middleware, logs or metrics",
        "the request is answered; a JSON 500 only before the first byte, never a traceback",
    ),
    Row(
        "E11",
        "a broken registry file, a missing key",
        "one clear line and exit 2 at the start; there is no reload, so what runs stays",
    ),
    Row(
        "E12",
        "a reader of the log that stops reading",
        "every request is answered; lines beyond the bound are dropped, and one line tells how "
        "many when the reader goes on",
    ),
)

SECURITY = (
    Row("F1", "no keys and an open address", "it does not start, unless told so"),
    Row("F2", "keys in odd places and odd forms", "one place is read; the rest is 401"),
    Row("F3", "two keys with the same beginning", "two tenants: the whole key is hashed"),
    Row("F4", "another tenant's history and ids", "no hit; 404 as for unknown ones, as quick"),
    Row("F5", "fields that could run together in a key", "length-prefixed: no collision"),
    Row("F6", "hop-by-hop and forged headers", "dropped or made anew"),
    Row("F7", "smuggled requests, also behind nginx and HAProxy", "400 and the end; no second one"),
    Row("F8", "an upstream header that splits the answer", "dropped, never a 500"),
    Row("F9", "destinations in requests", "ignored or 400: they come from configuration only"),
    Row("F10", "image addresses of inner networks", "nothing is ever fetched"),
    Row("F11", "paths within ids and names", "404; files are opened by our own ids only"),
    Row("F12", "media types with lines, escapes, great length", "a safe one; logs stay one line"),
    Row("F13", "keys everywhere", "in no log, metric, store or error"),
    Row("F14", "errors of every kind", "no key, host, path or stack in a body"),
    Row(
        "F15",
        "operations on the public port",
        "by the design on the same port: guarded by the admin key, or local names only; no docs",
    ),
    Row("F16", "scripts in everything the dashboard shows", "text, under a strict CSP"),
    Row(
        "F17",
        "requests from other origins",
        "no CORS, but for exact origins in `CHAT_PROXY_SERVER_CORS_ORIGINS`; never `*`",
    ),
    Row(
        "F18",
        "bombs: compressed, nested, for patterns",
        "decoded up to the limit and no further; JSON is read within 50 ms per MB; no pattern "
        "takes over 1 ms for any 1,000 characters",
    ),
    Row(
        "F19",
        "one tenant that floods",
        "429 `rate_limit_exceeded` with Retry-After; no summary beyond its tokens; others go on",
    ),
    Row(
        "F20",
        "ids of offloaded texts made up by a model",
        "by the design per tenant, not per conversation: 128 bits of a keyed hash; else 404",
    ),
    Row("F21", "data at rest", "private files; a purge leaves nothing"),
    Row("F22", "the supply chain", "pinned, few, no network at import, the same wheel twice"),
    Row(
        "F23",
        "keys in vendors' headers, alone or beside another",
        "all that are sent on make the tenant; discovery and side-queries carry them too",
    ),
    Row(
        "F24",
        "503s, 429s, garbage or silence for one tenant",
        "no breaker opens for another: neither for its chats nor for its summaries",
    ),
    Row(
        "F25",
        "a text that another tenant has sent",
        "takes as long as one that nobody has sent: caches by content have a salt per tenant",
    ),
    Row(
        "F26",
        "keys for which an upstream lists other models, none, or 401",
        "each key has the windows that it is told; nothing replaces a known one by nothing",
    ),
    Row(
        "F27",
        "web pages: forms, rebound names, foreign origins, pages that an upstream answers with",
        "415 or 403 before any key is spent; no script of an answer runs in our origin",
    ),
    Row(
        "F28",
        "headers that rewrite path, method or user; escapes in paths; keys in extra fields",
        "such headers pass in neither direction; a path is one path; `check-config` prints no key",
    ),
    Row(
        "F29",
        "one tenant that announces large bodies, or sends them, until no memory is left",
        "only what arrived is reserved; 503 `overloaded` for it, in the middle of a body with the "
        "end of the connection; others find memory free",
    ),
    Row(
        "F30",
        "bodies that become 30 times as large when they are parsed",
        "the limit counts what they become: memory stays within twice "
        "`CHAT_PROXY_LIMITS_MAX_INFLIGHT_BYTES`; 503 `overloaded`",
    ),
)

ROWS = (*CLIENT, *UPSTREAM, *SUMMARY, *STORE, *PROCESS, *SECURITY)
