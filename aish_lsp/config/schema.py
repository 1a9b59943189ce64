"""The keys of the configuration, their defaults and their bounds.

One class a table of ``config.toml``. The loader, ``aish-lsp config schema`` and
docs/configuration.md are made from these classes: a key exists when it stands here. A field's
``doc`` is its line in the documentation; ``minimum`` and ``maximum`` are its bounds, a Literal its
choices.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeVar

T = TypeVar("T")

Provider = Literal["openai", "openai-responses", "anthropic", "gemini", "offline"]

#: What kind of question one is (aish_lsp.agent.model_choice).
QuestionClass = Literal["shell", "code", "chat", "reasoning"]


#: A row of the tables of commands (aish_lsp.shell.risk.matching): it begins with a name.
_ROW: Final = re.compile(r"[^\s!{-]\S*(?:\s+(?:operands:\d{1,3}|(?!operands:)\S+))*")

#: The server whose tools are our own.
OWN_TOOLS: Final = "aish"

#: Where a provider's own models are, and the usual variable of the key.
OWN_ENDPOINTS: dict[Provider, tuple[str, str]] = {
    "openai-responses": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY"),
}


def key(
    default: T,
    doc: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
) -> T:
    """Declare a key with its default, its documentation and its bounds."""
    metadata = {"doc": doc, "minimum": minimum, "maximum": maximum}
    if isinstance(default, dict | list):
        prototype = default
        return field(default_factory=lambda: type(prototype)(prototype), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Dollars a million tokens."""

    input: float = key(0.0, "input tokens", minimum=0)
    output: float = key(0.0, "output tokens, reasoning included", minimum=0)
    cache_read: float | None = key(
        None, "input tokens read from the cache; else as input", minimum=0
    )
    cache_write: float | None = key(
        None, "input tokens written to the cache; else as input", minimum=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A model: who serves it, where, and how it is asked. ``name`` is its table's name.

    Without an ``endpoint`` it is the provider's own, where it has one, with its usual key.
    """

    name: str = ""
    provider: Provider = key("openai", "the wire protocol")
    endpoint: str = key(
        "", "the server's address, with or without /v1; empty: the provider's own, but for openai"
    )
    model: str = key("", "the model's name as the server knows it; empty: the server's only one")
    context_window: int | None = key(None, "tokens; else asked of the server, else 4096", minimum=1)
    token_budget: int | None = key(None, "tokens of a request, for this model", minimum=1)
    max_output_tokens: int = key(1024, "tokens of a reply", minimum=1)
    api_key_env: str | None = key(None, "the environment variable that holds the key")
    api_key_command: list[str] | None = key(None, "a command that prints the key")
    timeout: float = key(120.0, "seconds without a byte from the server", minimum=0.001)
    total_timeout: float = key(
        3600.0, "seconds of a whole reply; what arrived by then is kept", minimum=0.001
    )
    local_compress: bool = key(False, "send only the last turns, cut short")
    use_tool_role: bool = key(True, "false for chat templates that know no tool role")
    temperature: float | None = key(None, "sampling temperature", minimum=0)
    top_p: float | None = key(None, "nucleus sampling", minimum=0, maximum=1)
    stop: list[str] | None = key(None, "texts that end the reply")
    seed: int | None = key(None, "seed of the sampling")
    reasoning_effort: str | None = key(None, "how long to reason, in the provider's words")
    extra_body: dict[str, Any] = key({}, "fields added to the request as they are")
    extra_headers: dict[str, str] = key({}, "headers added to the request")
    price: Price | None = key(None, "dollars a million tokens")

    def __post_init__(self) -> None:
        """Fill in the provider's own address and key."""
        own = None if self.endpoint else OWN_ENDPOINTS.get(self.provider)
        if own is not None:
            endpoint, variable = own
            object.__setattr__(self, "endpoint", endpoint)
            if self.api_key_env is None and self.api_key_command is None:
                object.__setattr__(self, "api_key_env", variable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compress:
    """What a ``local_compress`` model is sent."""

    keep_turns: int = key(2, "turns that are sent", minimum=1)
    max_turn_chars: int = key(800, "characters that are kept of each, from its end", minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The conversation and its budget."""

    max_turns: int = key(40, "turns that are kept", minimum=1)
    token_budget: int | None = key(
        None, "tokens; else the window less the reply, else 4096", minimum=1
    )
    low_water: float = key(0.75, "evict down to this share of the budget", minimum=0, maximum=1)
    summarize: bool = key(True, "summarize what is evicted")
    summary_model: str = key("", "the preset that summarizes; empty: the active one")
    system_prompt: str = key("", "replaces the base prompt; the CMD: contract is always added")
    max_summary_chars: int = key(2000, "characters of the rolling summary", minimum=1)
    compress: Compress = field(default_factory=Compress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenize:
    """Counting tokens with the server's own tokenizer."""

    use_endpoint: bool = key(False, "ask the server's tokenizer where it has one")
    timeout_ms: int = key(2000, "milliseconds before a count falls back", minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory that lasts across sessions."""

    inject_max_chars: int = key(2000, "characters of the [background] block", minimum=0)
    summarizer_model: str = key("", "the preset that extracts candidates; empty: the active one")
    path: str | None = key(None, "the file of the workspace's memory")
    prune_older_than_days: int | None = key(None, "hide older items", minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """The picture of the project."""

    auto_tree: bool = key(True, "put the file tree into the prompt")
    depth: int = key(4, "folders deep", minimum=1)
    max_chars: int = key(4000, "characters of the block", minimum=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Which model answers which question, and who steps in."""

    classes: dict[str, str] = key(
        {}, "a class of question (`shell`, `code`, `chat`, `reasoning`) to a preset"
    )
    system_prompts: dict[str, str] = key(
        {}, "a class of question to its base prompt; the CMD: contract is always added"
    )
    fallback: list[str] = key(
        [], "presets to try, in this order, when one is down; after them the offline model"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Thresholds of a session."""

    warn_at_dollars: float | None = key(None, "warn once beyond this", minimum=0)
    warn_at_tokens: int | None = key(None, "warn once beyond this", minimum=0)
    cap_at_dollars: float | None = key(None, "refuse what would cross this", minimum=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """Which session an editor begins with."""

    resume: Literal["ask", "always", "never"] = key(
        "ask",
        "`ask`: a new one, and the chat tells how to go on with the last; `always`: the last one"
        " that is not open elsewhere; `never`: a new one",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """What of a reply can be run, and when a reply has said enough."""

    fences: bool = key(True, "offer blocks that are tagged as a shell's, not `CMD: ` lines alone")
    repetition_guard: Literal["local", "all", "off"] = key(
        "local", "whose replies are stopped where they run in circles: of models on this machine"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServer:
    """An MCP server: a command to start, or an address."""

    command: list[str] | None = key(None, "the command that starts it")
    url: str | None = key(None, "its address, when it is not started by us")
    env: dict[str, str] = key(
        {}, "environment variables for the command; `${NAME}` in a value is one of our own"
    )
    headers: dict[str, str] = key(
        {}, "headers of each request to `url`; `${NAME}` in a value is a variable of ours"
    )
    enabled: bool = key(True, "false to keep the entry and not use it")
    off: list[str] = key([], "names of its tools that are not offered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What a model may call, and tool servers by name."""

    max_rounds: int = key(
        20, "rounds of tool calls within a turn; then it ends", minimum=1, maximum=1000
    )
    share: float = key(
        0.1,
        "of the window; where the tools' schemas take more, only names and a line on each go",
        minimum=0,
        maximum=1,
    )
    servers: dict[str, ToolServer] = key(
        {}, "tool servers by name; `aish` is the tools of our own, without command or url"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskRule:
    """What is said of the commands that ``match``."""

    match: str = key("", "the commands, as a row of the tables writes them")
    risk: Literal["safe", "caution", "destructive"] = key("destructive", "what they are")
    reason: str = key("", "what the question says")
    confine: bool = key(True, "run what is called safe confined")

    only_stricter: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse what is not a row."""
        if not _ROW.fullmatch(self.match):
            msg = "found no command to match; accepted: a command's name and conditions"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRule(RiskRule):
    """A rule that a workspace brings: it can make a command's risk higher, never lower."""

    only_stricter: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """What may run without a question."""

    confirm: Literal["destructive", "always"] = key("destructive", "which commands ask first")
    shell: str = key("bash", "the shell; with another than bash or sh nothing is ever safe")
    snapshot: bool = key(True, "take a snapshot before a command that changes something")
    confine: bool = key(
        True,
        "run what is safe [confined](safety.md#confinement), where the system can; a workspace's"
        " own settings cannot turn it off",
    )
    rules: list[RiskRule] = key(
        [],
        "rows that come before the tables of commands, each `{match, risk, reason, confine}`"
        " ([how a row is read](safety.md#rules-of-your-own)); a workspace's only ever make a"
        " command's risk higher",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Norris:
    """Bounds of the autonomous loop."""

    max_steps: int = key(20, "steps", minimum=1)
    max_minutes: float = key(30.0, "minutes", minimum=0)
    max_tokens: int = key(200_000, "tokens", minimum=1)
    max_dollars: float = key(1.0, "dollars", minimum=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration.

    Where no preset has the name ``default_model``, the first preset answers; where there is none at
    all, a model server that is found, a key that the user agreed to, or the offline model.
    """

    default_model: str = key(
        "local", "the preset that answers; without it the first, else what is found, else offline"
    )
    models: dict[str, Preset] = key({}, "presets by name")
    context: Context = field(default_factory=Context)
    tokenize: Tokenize = field(default_factory=Tokenize)
    memory: Memory = field(default_factory=Memory)
    project: Project = field(default_factory=Project)
    routing: Routing = field(default_factory=Routing)
    cost: Cost = field(default_factory=Cost)
    sessions: Sessions = field(default_factory=Sessions)
    suggestions: Suggestions = field(default_factory=Suggestions)
    tools: Tools = field(default_factory=Tools)
    safety: Safety = field(default_factory=Safety)
    norris: Norris = field(default_factory=Norris)
