"""What a server says about its tools: each is judged alone, and its schema made fit for models.

Model servers refuse a whole request for one schema that they do not take. What is only odd is
taken as it is meant; what no model could use is left out, with the reason.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.text import count_of, escaped
from aish_lsp.models.request import ToolSchema
from aish_lsp.tools import offered_name

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool of a server.

    Attributes:
        name: the server's own name for it.
        schema: the schema that a model is offered, with the name ``SERVER__NAME``.
        reads: whether the server says that it changes nothing.
        definition: all that the server says about it, as lines that can be compared.
        pin: a hash of the server's name and the definition.
    """

    name: str
    schema: ToolSchema
    reads: bool
    definition: str
    pin: str


class Unfit(Exception):
    """A tool cannot be offered; the text says why."""


#: Characters of a tool's schema and of its description, and levels of its schema. A tool that
#: exceeds one of these is left out: a model could hardly use it, and some model servers would fail.
_LARGEST_SCHEMA: Final = 1 << 16
_LONGEST_DESCRIPTION: Final = 1 << 14
_DEEPEST: Final = 40


def checked_tools(server: str, listed: Iterable[Any]) -> tuple[list[ServerTool], list[str]]:
    """Return the tools of a server that can be offered, and why the others cannot.

    ``listed`` are the tools as the server sent them.
    """
    tools: list[ServerTool] = []
    left_out: list[str] = []
    taken: set[str] = set()
    for number, one in enumerate(listed, start=1):
        name = one.get("name") if isinstance(one, dict) else None
        shown = escaped(name)[:60] if isinstance(name, str) and name else f"number {number}"
        try:
            tool = _checked(server, one)
        except Unfit as problem:
            left_out.append(f"{shown}: {problem}")
            continue
        except Exception as error:  # noqa: BLE001 - of an unknown program, and the others are good
            logger.info("a tool of %s cannot be read: %s", server, type(error).__name__)
            left_out.append(f"{shown}: its definition cannot be understood")
            continue
        if tool.schema.name in taken:
            left_out.append(f"{shown}: another one has the same name")
            continue
        taken.add(tool.schema.name)
        tools.append(tool)
    return tools, left_out


def _checked(server: str, one: Any) -> ServerTool:
    """Return a tool that a server listed.

    Raises:
        Unfit: it cannot be offered.
    """
    if not isinstance(one, dict):
        raise Unfit("it is not an object")
    name, hints, execution = one.get("name"), one.get("annotations"), one.get("execution")
    if not isinstance(name, str) or not name:
        raise Unfit("it has no name")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        raise Unfit("it can only be called as a task, which aish does not do")
    if _depth(one) > _DEEPEST + 1:
        raise Unfit("its schema is nested too deeply")
    about = next((text for key in ("description", "title") if (text := one.get(key))), "")
    about = about.strip() if isinstance(about, str) else json.dumps(about, ensure_ascii=False)
    parameters = fit_schema(one.get("inputSchema"))
    _check_size(one.get("inputSchema"), about)
    definition = _definition(one, hints if isinstance(hints, dict) else {})
    pin = hashlib.sha256(f"{server}\n{definition}".encode(errors="surrogatepass")).hexdigest()
    schema = ToolSchema(offered_name(server, name), about, parameters)
    reads = isinstance(hints, dict) and hints.get("readOnlyHint") is True
    return ServerTool(name, schema, reads, definition, pin)


def _definition(tool: Mapping[str, Any], hints: Mapping[str, Any]) -> str:
    """Return all that a server says about a tool, in visible characters, with a line per part."""
    parts = {
        "name": tool.get("name"),
        "title": tool.get("title"),
        "description": tool.get("description"),
        "arguments": tool.get("inputSchema"),
        "result": tool.get("outputSchema"),
        "annotations": {
            re.sub(r"(?<=[a-z])(?=[A-Z])", "_", hint).lower(): value
            for hint, value in hints.items()
            if value is not None
        },
    }
    return "\n".join(
        f"{part}: {json.dumps(value, indent=1, sort_keys=True)}" for part, value in parts.items()
    )


def _check_size(schema: Any, about: str) -> None:
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except ValueError:
        # NaN and Infinity are not JSON: model servers would refuse the whole request.
        raise Unfit("its schema has a number that is not finite") from None
    if size > _LARGEST_SCHEMA or len(about) > _LONGEST_DESCRIPTION:
        msg = f"its schema or its description is too long ({count_of(size, 'character')})"
        raise Unfit(msg)


def _depth(value: object) -> int:
    level, deepest = [value], 0
    while level and deepest <= _DEEPEST + 1:
        deepest += 1
        inner = [list(one.values()) for one in level if isinstance(one, dict)]
        inner += [one for one in level if isinstance(one, list)]
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
    return deepest


# Schemas

Json = dict[str, Any]

#: Keywords whose value is a schema, a list of schemas, or schemas by name.
_ONE: Final = frozenset(
    {"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"}
)
_SOME: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)

_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})

#: Keywords whose value is a text for people.
_WORDS: Final = frozenset({"title", "description"})

#: Keywords whose value may be null.
_VALUES: Final = frozenset({"const", "default", "enum", "examples", "example"})


def _without_dangling(part: Any, root: Json) -> Any:
    """Return a part of a schema without references to what ``root`` does not have."""
    if isinstance(part, list):
        return [_without_dangling(one, root) for one in part]
    if not isinstance(part, dict):
        return part
    name = part.get("$ref")
    is_dangling = isinstance(name, str) and name.startswith("#") and _at(name, root) is None
    return {
        key: _without_dangling(value, root)
        for key, value in part.items()
        if key != "$ref" or not is_dangling
    }


def _at(name: str, root: Json) -> Any:
    """Return the part of a schema that a reference names, or None."""
    node: Any = root
    for part in name.removeprefix("#").strip("/").split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = node[int(key)] if key.isdecimal() and int(key) < len(node) else None
        elif key:
            node = node.get(key) if isinstance(node, dict) else None
    return node


#: How many parts of a root are looked at.
_MOST_PARTS: Final = 1000

#: What model servers refuse at the root of a schema.
_NOT_AT_ROOT: Final = ("anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref")


def fit_schema(given: Any) -> Json:
    """Return the schema of a tool's arguments as model servers accept it.

    It is an object with ``properties``, and without combinators at its root: all alternatives are
    allowed, since the tool's server checks them anyway. Nothing, and an empty list, as PHP writes
    an empty object, stand for no arguments.

    Raises:
        Unfit: no arguments can be made of it, or it is not a schema.
    """
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - heavy

    if given is None or given == []:
        given = {}
    if not isinstance(given, dict):
        raise Unfit("its schema is not an object")
    schema = _Root(given).flat(_mended(given))
    schema = _without_dangling(schema, schema)
    schema = {**schema, "type": "object", "properties": schema.get("properties", {})}
    if required := _known_names(schema.get("required"), schema["properties"]):
        schema["required"] = required
    else:
        schema.pop("required", None)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise Unfit(f"its schema is not valid: {escaped(error.message)[:120]}") from None
    return schema


def _mended(given: Any) -> Any:
    """Return a schema with what older drafts and careless servers write, as it is written now."""
    if not isinstance(given, dict):
        return given
    schema = {key: value for key, value in given.items() if _says_something(key, value)}
    for key in _NAMED & schema.keys():
        named = schema[key] if isinstance(schema[key], dict) else {}
        schema[key] = {
            name: _mended(_spelled_out(one))
            for name, one in named.items()
            if name != "required" or not isinstance(one, list)
        }
    for key in _SOME & schema.keys():
        if isinstance(schema[key], list) and schema[key]:
            schema[key] = [_mended(one) for one in schema[key]]
        else:
            del schema[key]
    if isinstance(items := schema.get("items"), list):
        del schema["items"]
        schema |= {"prefixItems": [_mended(one) for one in items]} if items else {}
    for key in _ONE & schema.keys():
        schema[key] = _mended(schema[key])
    required = _required(given)
    schema.pop("required", None)
    if required:
        schema["required"] = required
    if schema.get("type") == "array" and not schema.keys() & {"items", "prefixItems"}:
        schema["items"] = {}  # Some model servers refuse an array of anything.
    return _bounded(schema)


def _says_something(key: str, value: Any) -> bool:
    """Return whether a keyword has a value that can be one of its own."""
    return isinstance(value, str) if key in _WORDS else value is not None or key in _VALUES


def _spelled_out(given: Any) -> Json:
    """Return a schema that may be written as the name of its type; any other value says nothing."""
    if isinstance(given, str) and given in _TYPES:
        return {"type": given}
    return given if isinstance(given, dict) else {}


def _bounded(schema: Json) -> Json:
    """Return a schema whose exclusive bounds are numbers: in draft 4 they say which bounds are."""
    for bound in ("Minimum", "Maximum"):
        if isinstance(is_exclusive := schema.get(f"exclusive{bound}"), bool):
            del schema[f"exclusive{bound}"]
            if is_exclusive and bound.lower() in schema:
                schema[f"exclusive{bound}"] = schema.pop(bound.lower())
    return schema


def _required(schema: Json) -> list[str]:
    """Return the names that a schema requires, wherever it says so."""
    required = schema.get("required")
    names = (
        [required] if isinstance(required, str) else required if isinstance(required, list) else []
    )
    properties = schema.get("properties")
    inner: Json = properties if isinstance(properties, dict) else {}
    # As in draft 3, or a level too deep.
    more = [
        name for name, one in inner.items() if isinstance(one, dict) and one.get("required") is True
    ]
    more += misplaced if isinstance(misplaced := inner.get("required"), list) else []
    return list(dict.fromkeys(name for name in [*names, *more] if isinstance(name, str)))


def _known_names(required: Any, properties: Json) -> list[str]:
    return [name for name in required or [] if name in properties]


class _Root:
    """The root of a schema, which is made an object without combinators and references.

    ``left`` bounds the work: references may multiply alternatives.
    """

    def __init__(self, given: Json) -> None:
        self._given = given
        self._left = _MOST_PARTS

    def flat(self, schema: Json, seen: frozenset[str] = frozenset()) -> Json:
        """Return ``schema``, a part of the root, as an object's.

        Raises:
            Unfit: it is not an object.
        """
        self._left -= 1
        if self._left < 0:
            raise Unfit("its schema has too many alternatives")
        kinds = schema.get("type", "object")
        if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
            raise Unfit("its arguments are not an object")
        flat = {key: value for key, value in schema.items() if key not in _NOT_AT_ROOT}
        for part in schema.get("allOf", ()):
            if isinstance(part, dict):
                _add(flat, self.flat(part, seen))
        if isinstance(name := schema.get("$ref"), str):
            _add(flat, self.flat(self._referred(name, seen), seen | {name}))
        for key in ("anyOf", "oneOf"):
            if key in schema:
                _add(flat, self._any_of(schema[key], seen))
        return flat

    def _any_of(self, alternatives: list[Any], seen: frozenset[str]) -> Json:
        """Return one object's schema that allows what any of the alternatives does."""
        objects: list[Json] = []
        for one in alternatives:
            try:
                objects.append(self.flat(one if isinstance(one, dict) else {}, seen))
            except Unfit:  # such as null
                if self._left < 0:
                    raise
        if not objects:
            raise Unfit("its arguments are not an object")
        every = [one.get("required", []) for one in objects]
        whole: Json = {"required": [name for name in every[0] if all(name in one for one in every)]}
        for one in objects:
            for name, value in one.get("properties", {}).items():
                _allow(whole.setdefault("properties", {}), name, value)
        if any(sorted(one) != sorted(every[0]) for one in every):
            ways = "; or ".join(", ".join(one) or "nothing" for one in every)
            whole["description"] = f"Needed: {ways}."
        return whole

    def _referred(self, name: str, seen: frozenset[str]) -> Json:
        """Return the schema that the root refers to.

        Raises:
            Unfit: it is elsewhere, or refers to itself.
        """
        schema = _at(name, self._given) if name.startswith("#/") else None
        if name in seen or not isinstance(schema, dict):
            raise Unfit(f"its schema refers to {escaped(name)[:60]}, which it does not have")
        mended: Json = _mended(schema)
        return mended


def _allow(properties: Json, name: str, value: Any) -> None:
    """Allow one more kind of value for an argument."""
    allowed = properties.setdefault(name, value)
    if allowed != value:
        is_list = isinstance(allowed, dict) and allowed.keys() == {"anyOf"}
        kinds = allowed["anyOf"] if is_list else [allowed]
        properties[name] = {"anyOf": [*kinds, value] if value not in kinds else kinds}


def _add(flat: Json, part: Json) -> None:
    """Add what ``part`` says to an object's schema; what is already said remains."""
    properties = {**part.get("properties", {}), **flat.get("properties", {})}
    required = list(dict.fromkeys([*flat.get("required", []), *part.get("required", [])]))
    about = " ".join(filter(None, (flat.get("description"), part.get("description"))))
    flat |= {key: value for key, value in part.items() if key not in flat}
    flat |= {"properties": properties, "required": required}
    if about:
        flat["description"] = about
