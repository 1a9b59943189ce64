"""Every fault of a model server, and what must happen over each protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fault_proxy import Fault, handed_on
from fault_server import EVENT_STREAM, unused_port
from provider_breaks import (
    KEY,
    REPLY,
    SOME,
    begun_with,
    byte_by_byte,
    changed,
    counted,
    cut,
    endless,
    endless_answer,
    head,
    instead,
    labelled,
    not_zipped,
    overloaded,
    preceded,
    raw,
    redirects,
    refusal,
    reset_at_the_end,
    silent_at_the_end,
    then,
    then_event,
    without_its_end,
    without_last_blank_line,
    zipped,
)

from aish_lsp.foundation.errors import (
    AishError,
    BackendRejected,
    BackendUnavailable,
    InvalidArgument,
)
from aish_lsp.models.http import REFUSAL_LIMIT

#: Seconds of silence after which a server is given up, if the fault is silence.
PATIENCE: Final = 2.0

#: Length in bytes of the longest line that must be read.
LONG_LINE: Final = 1 << 20

Kept: TypeAlias = Literal["whole", "part", "nothing"]
Endpoint: TypeAlias = Callable[[str, str], str]


@dataclass(frozen=True)
class Expected:
    """What must result from a fault: how much of the reply, which error, and words in its message.

    ``text`` is the whole reply, if it is not REPLY.
    """

    kept: Kept
    error: type[AishError] | None = None
    says: str = ""
    text: str = REPLY


WHOLE: Final = Expected("whole")


@dataclass(frozen=True)
class Row:
    """A fault, described as what ``happens``.

    ``endpoint`` makes the address to ask from the proxy's and a real server's;
    ``patience`` is the preset's timeout in seconds.
    """

    happens: str
    fault: Fault
    expected: Expected
    endpoint: Endpoint = lambda proxy, _: proxy
    patience: float = 20.0


def unavailable(says: str) -> Expected:
    """No reply, and another model may answer."""
    return Expected("nothing", BackendUnavailable, says)


def rejected(says: str) -> Expected:
    """No reply, and no other model is asked."""
    return Expected("nothing", BackendRejected, says)


def broken(says: str) -> Expected:
    """A part of a reply."""
    return Expected("part", BackendUnavailable, says)


PAGE: Final = b"<!doctype html><html><head><title>Sign in - Caf\xc3\xa9 Wi-Fi</title></head></html>"
GATEWAY: Final = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
BIG: Final = b"x" * (64 << 10)
FAILS: Final = b"oops" + b" " * REFUSAL_LIMIT
NESTED: Final = b'{"a":' * (16 << 10)


def faults(elsewhere: str) -> dict[str, list[Row]]:
    """Return all faults by kind; ``elsewhere`` is another host to redirect to."""
    return {
        "The connection": _of_the_connection(),
        "The bytes on their way": _of_the_bytes(),
        "The answer": _of_the_answer(elsewhere),
        "The stream": _of_the_stream(),
    }


def _of_the_connection() -> list[Row]:
    nobody, unknown = f"http://127.0.0.1:{unused_port()}", "https://models.invalid"
    garbage = raw(b"\0\xff\xfe nonsense\r\n\r\n")
    return [
        Row("Nothing listens at the address", handed_on, unavailable("Nothing answers at"),
            endpoint=lambda *_: nobody),
        Row("The host name is unknown", handed_on, unavailable("cannot be reached"),
            endpoint=lambda *_: unknown),
        Row("`https://` where the server speaks plain HTTP", handed_on,
            unavailable("Does the server speak https"), patience=PATIENCE,
            endpoint=lambda _, real: real.replace("http:", "https:")),
        Row("The host name is not valid", handed_on,
            Expected("nothing", InvalidArgument, "is not an address"),
            endpoint=lambda *_: "https://xn--"),
        Row("The connection is reset before the answer", raw(b"", "reset"),
            unavailable("it was reset. Ask again")),
        Row("The connection is closed before the answer", raw(b""), unavailable("broke off")),
        Row("Silence before the answer", raw(b"", "wait"), unavailable("sent nothing for"),
            patience=PATIENCE),
        Row("The answer is not HTTP", garbage, unavailable("not HTTP")),
        Row("The connection is reset mid-reply", then(end="reset"), broken("broke off")),
        Row("The connection is half-closed mid-reply", then(end="half-close"), broken("broke off")),
        Row("Silence mid-reply", then(end="wait"), broken("sent nothing for"),
            patience=PATIENCE),
        Row("The connection is reset after the end of the reply", reset_at_the_end, WHOLE),
        Row("Silence after the end of the reply", silent_at_the_end, WHOLE),
    ]  # fmt: skip


def _of_the_bytes() -> list[Row]:
    mojibake = Expected("whole", text=REPLY.replace("ü", "\ufffd\ufffd"))
    padded = b'data: {"padding": "' + b"x" * LONG_LINE + b'"}\n\n'
    return [
        Row("Head and body arrive byte by byte", byte_by_byte, WHOLE),
        Row("Chunks are cut in the middle of characters", cut("(?<=[\x80-\xff])"), WHOLE),
        Row("Lines end with CR LF", changed(lambda event: event.replace(b"\n", b"\r\n")), WHOLE),
        Row("Lines end with CR", changed(lambda event: event.replace(b"\n", b"\r")), WHOLE),
        Row("There is a byte order mark at the beginning", begun_with(b"\xef\xbb\xbf"), WHOLE),
        Row("Comments and empty lines between events",
            changed(lambda event: b": keep-alive\n\n\n:\n\n" + event), WHOLE),
        Row("No blank line after the last event", without_last_blank_line, WHOLE),
        Row("No blank lines between events", changed(lambda event: event[:-1]), WHOLE),
        Row("A line of one mebibyte", begun_with(padded), WHOLE),
        Row("A line that never ends", endless(BIG), broken("never ends")),
        Row("An event that never ends", endless(b"data: " + BIG + b"\n"), broken("never ends")),
        Row("Bytes that are not UTF-8",
            changed(lambda event: event.replace(b"\xc3\xbc", b"\xff\xfe")), mojibake),
        Row("Compressed, although not asked for", zipped(), WHOLE),
        Row("Compressed and cut off", zipped(SOME), broken("ended before the reply did")),
        Row("Compressed according to its header, but not in fact",
            not_zipped, unavailable("damaged")),
    ]  # fmt: skip


def _of_the_answer(elsewhere: str) -> list[Row]:
    wrong_key = refusal(f"Incorrect API key provided: {KEY}", "invalid_api_key", 401)
    spent = refusal("Rate limit reached", "rate_limit_error", 429)
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
    statuses = ("301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect")
    return [
        *(Row(f"Redirected to another host ({status[:3]})", redirects(status, elsewhere),
              rejected("redirects to")) for status in statuses),
        Row("400: the request is wrong",
            instead("400 Bad Request", refusal("temperature: must be at most 1", "invalid", 400)),
            rejected("temperature: must be at most 1")),
        Row("401, and the server quotes the key", instead("401 Unauthorized", wrong_key),
            rejected(r"\*\*\*.*Check the key")),
        Row("403: the key may not do this",
            instead("403 Forbidden", refusal("No access to this model", "permission_error", 403)),
            rejected("Check the key, and whether")),
        Row("404: no such model or address",
            instead("404 Not Found", refusal("No such model", "not_found_error", 404)),
            rejected("Check the model's `endpoint`")),
        Row("429, with a time to wait",
            instead("429 Too Many Requests", spent, "application/json", "Retry-After: 7"),
            unavailable("Try again in 7 s")),
        Row("500, in plain text", instead("500 Internal Server Error", b"oops", "text/plain"),
            unavailable("oops")),
        Row("502, a gateway's HTML page", instead("502 Bad Gateway", GATEWAY, "text/html"),
            unavailable("502 Bad Gateway")),
        Row("503: the model is loading",
            instead("503 Service Unavailable", refusal("Loading model", "unavailable", 503)),
            unavailable("Loading model")),
        Row("529: overloaded", instead("529 Overloaded", refusal("Overloaded", "overloaded_error")),
            unavailable("Overloaded")),
        Row("500 with a body that never ends", endless_answer("500 Oops", "text/plain", FAILS),
            unavailable("cannot answer now")),
        Row("200 with an HTML page", instead("200 OK", PAGE, "text/html"),
            unavailable("Sign in - Café Wi-Fi.*Is `endpoint` a model server")),
        Row("200 with an HTML page that never ends",
            endless_answer("200 OK", "text/html", PAGE + BIG),
            unavailable("Is `endpoint` a model server")),
        Row("200 with an error in JSON", instead("200 OK", overloaded), unavailable("overloaded")),
        Row("200 with JSON of another kind", instead("200 OK", ["ready"]),
            unavailable("not part of a reply")),
        Row("200 with JSON that never ends", endless_answer("200 OK", "application/json", NESTED),
            unavailable("not part of a reply")),
        Row("200 with nothing", instead("200 OK", b"", EVENT_STREAM), unavailable("ended before")),
        Row("The events are labelled `text/html`", labelled("text/html"), WHOLE),
        Row("The events are labelled `application/octet-stream`",
            labelled("application/octet-stream"), WHOLE),
        Row("The events have no type", labelled(None), WHOLE),
        Row("100 Continue before the answer", preceded(b"HTTP/1.1 100 Continue\r\n\r\n"), WHOLE),
        Row("103 Early Hints before the answer", preceded(interim), WHOLE),
        Row("Headers that never end", raw(head("X: " + "x" * (1 << 20))),
            unavailable("never end")),
        Row("`Content-Length` is too large", counted(1.5), WHOLE),
        Row("`Content-Length` is too small", counted(0.5), broken("or is cut")),
        Row("The chunks' lengths are broken", then(b"zz\r\nnonsense\r\n"), broken("broke off")),
    ]  # fmt: skip


def _of_the_stream() -> list[Row]:
    cut_json = b'data: {"choices": [{"delta": {"content": "\xf0\x9f'
    return [
        Row("The provider reports an error mid-reply", then_event(overloaded),
            broken("The server is overloaded")),
        Row("An event that is not JSON", then_event("{not JSON"), broken("not part of a reply")),
        Row("An event that is not an object", then_event([1, 2]), broken("not part of a reply")),
        Row("An event is cut in the middle of a character",
            then(b"%x\r\n%b\r\n0\r\n\r\n" % (len(cut_json), cut_json)), broken("or is cut")),
        Row("The stream ends mid-reply", then(end="end"), broken("ended before the reply did")),
        Row("The stream ends with the text, and nothing says that it is complete", without_its_end,
            Expected("part", BackendUnavailable, "ended before the reply did")),
    ]  # fmt: skip
