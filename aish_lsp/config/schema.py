"""The keys of the configuration, their defaults and their bounds.

Each class is a table of ``config.toml``. The loader, ``aish-lsp config schema`` and
docs/configuration.md are derived from these classes, so a key is defined here and nowhere else. A
field's ``doc`` is its line in the documentation; ``minimum`` and ``maximum`` are its bounds, and a
Literal lists its choices.
"""

from __future__ import annotations

import re
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, TypeVar

from aish_lsp.foundation.dataclass import dataclass
from aish_lsp.foundation.files import config_file, expanded

T = TypeVar("T")

Provider = Literal["openai", "openai-responses", "anthropic", "gemini", "ollama", "offline"]

#: The class of a question (see aish_lsp.agent.model_choice).
QuestionClass = Literal["shell", "code", "chat", "reasoning"]

#: A row of the command tables (see aish_lsp.shell.risk.matching): it begins with a name.
_ROW: Final = re.compile(r"[^\s!{-]\S*(?:\s+(?:operands:\d{1,3}|(?!operands:)\S+))*")

#: The name of the server that stands for the built-in tools.
OWN_TOOLS: Final = "aish"

#: The window of a model with a ``file``, in tokens, if none is configured.
LOCAL_WINDOW: Final = 8192

#: Each provider's own address, and the variable that usually holds its key.
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
    """Declare a key with its default, documentation and bounds."""
    metadata = {"doc": doc, "minimum": minimum, "maximum": maximum}
    if isinstance(default, dict | list):
        prototype = default
        return field(default_factory=lambda: type(prototype)(prototype), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Dollars per million tokens."""

    input: float = key(0.0, "input tokens", minimum=0)
    output: float = key(0.0, "output tokens, reasoning included", minimum=0)
    cache_read: float | None = key(
        None, "input tokens read from the cache; default: as `input`", minimum=0
    )
    cache_write: float | None = key(
        None, "input tokens written to the cache; default: as `input`", minimum=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A model: who serves it, where, and how to call it. ``name`` is the table's name.

    Without an ``endpoint``, the provider's own address and key variable are used if it has them.
    With a ``file``, the endpoint names that file until its server is started.
    """

    name: str = ""
    provider: Provider = key("openai", "the wire protocol")
    endpoint: str = key(
        "",
        "the server's address, with or without /v1; empty: the provider's own, except for openai",
    )
    file: str | None = key(
        None, "a model in a GGUF file, instead of an endpoint: llama.cpp's server is started for it"
    )
    model: str = key("", "the model's name on the server; empty: the server's only model")
    context_window: int | None = key(
        None, "in tokens; default: what the server reports, otherwise 4096", minimum=1
    )
    token_budget: int | None = key(None, "the most tokens in a request to this model", minimum=1)
    max_output_tokens: int = key(1024, "the most tokens in a reply", minimum=1)
    api_key_env: str | None = key(
        None, "the environment variable that holds the key, or its name in keys.env"
    )
    api_key_command: list[str] | None = key(None, "a command that prints the key")
    timeout: float = key(120.0, "seconds to wait for the next byte from the server", minimum=0.001)
    total_timeout: float = key(
        3600.0, "seconds for a whole reply; what has arrived by then is kept", minimum=0.001
    )
    local_compress: bool = key(
        False, "send only the last turns, shortened; see `[context.compress]`"
    )
    use_tool_role: bool = key(True, "set to false for chat templates without a tool role")
    temperature: float | None = key(None, "the sampling temperature", minimum=0)
    top_p: float | None = key(None, "the threshold for nucleus sampling", minimum=0, maximum=1)
    stop: list[str] | None = key(None, "strings that end the reply")
    seed: int | None = key(None, "the sampling seed")
    reasoning_effort: str | None = key(None, "how much to reason, as a value the provider accepts")
    extra_body: dict[str, Any] = key({}, "fields to add to the request unchanged")
    extra_headers: dict[str, str] = key({}, "headers to add to the request")
    price: Price | None = key(None, "dollars per million tokens")

    def __post_init__(self) -> None:
        """Fill in the provider's own address and key variable, or what a ``file`` stands for."""
        if self.file is not None:
            if self.endpoint.strip() not in ("", self.path.as_uri()):
                raise ValueError("found `file` and `endpoint`; accepted: one of them")
            object.__setattr__(self, "endpoint", self.path.as_uri())
            object.__setattr__(self, "model", self.model or self.path.stem)
            object.__setattr__(self, "context_window", self.context_window or LOCAL_WINDOW)
        own = None if self.endpoint else OWN_ENDPOINTS.get(self.provider)
        if own is not None:
            endpoint, variable = own
            object.__setattr__(self, "endpoint", endpoint)
            if self.api_key_env is None and self.api_key_command is None:
                object.__setattr__(self, "api_key_env", variable)

    @property
    def path(self) -> Path:
        """Where the ``file`` is: a relative path begins at the folder of ``config.toml``."""
        return (config_file().parent / expanded(self.file or "")).absolute()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compress:
    """What is sent to a model with ``local_compress``."""

    keep_turns: int = key(2, "for a model with `local_compress`: how many turns to send", minimum=1)
    max_turn_chars: int = key(
        800,
        "for a model with `local_compress`: how many characters to keep of each turn, from its end",
        minimum=1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The conversation and its token budget."""

    max_turns: int = key(
        40,
        "how many turns (a question with its reply) to keep; older ones are summarized",
        minimum=1,
    )
    token_budget: int | None = key(
        None,
        "the most tokens in a request; default: the model's window minus room for the reply, or"
        " 4096 if the window is unknown",
        minimum=1,
    )
    low_water: float = key(
        0.75,
        "when a request would exceed its budget, older turns are summarized until it takes this"
        " share of the budget",
        minimum=0,
        maximum=1,
    )
    summarize: bool = key(True, "summarize the turns that no longer fit, rather than drop them")
    summary_model: str = key("", "the model that writes the summaries; empty: the one that answers")
    system_prompt: str = key(
        "",
        "instructions to the model in place of aish's own; how to suggest a command (the CMD:"
        " contract) is always added",
    )
    max_summary_chars: int = key(
        2000, "the most characters in the summary of older turns", minimum=1
    )
    compress: Compress = field(default_factory=Compress)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenize:
    """Counting tokens with the server's own tokenizer."""

    use_endpoint: bool = key(
        False, "count tokens by the model server's own tokenizer if it has one, not by an estimate"
    )
    timeout_ms: int = key(
        2000, "how long to wait for such a count before estimating it, in milliseconds", minimum=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory that persists across sessions."""

    inject_max_chars: int = key(
        2000,
        "the most characters of what is remembered that are sent with a question (the [background]"
        " block)",
        minimum=0,
    )
    summarizer_model: str = key(
        "", "the model that finds what is worth remembering; empty: the one that answers"
    )
    path: str | None = key(
        None,
        "the file that keeps what is remembered about the workspace; default: one of aish's own",
    )
    prune_older_than_days: int | None = key(
        None, "hide what was remembered longer ago than this many days; default: never", minimum=1
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings:
    """What the model is told about the project."""

    auto_tree: bool = key(True, "tell the model which files the project has")
    depth: int = key(4, "how many folders deep that list of files goes", minimum=1)
    max_chars: int = key(
        4000,
        "the most characters about the project that are sent with a question (the [project] block)",
        minimum=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Which model answers which questions, and the fallbacks."""

    classes: dict[str, str] = key(
        {}, "the model that answers each class of question: `shell`, `code`, `chat`, `reasoning`"
    )
    system_prompts: dict[str, str] = key(
        {},
        "instructions for each class of question in place of the usual ones; the CMD: contract is"
        " always added",
    )
    fallback: list[str] = key(
        [],
        "models to try, in this order, if the chosen one does not answer; the offline model comes"
        " last",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost and token thresholds for a session."""

    warn_at_dollars: float | None = key(
        None, "warn once when a session has cost more than this; default: never", minimum=0
    )
    warn_at_tokens: int | None = key(
        None, "warn once when a session has used more tokens than this; default: never", minimum=0
    )
    cap_at_dollars: float | None = key(
        None,
        "refuse requests that would make a session cost more than this; default: no limit",
        minimum=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Which session an editor starts with."""

    resume: Literal["ask", "always", "never"] = key(
        "ask",
        "which conversation an editor starts with: `ask`: a new one, and the chat says how to"
        " resume the last; `always`: the last one that is not open elsewhere; `never`: a new one",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionSettings:
    """Which parts of a reply can be run, and when to stop a repetitive reply."""

    save: Literal["ask", "always", "never"] = key(
        "ask",
        "before a command that is not safe, save the files that an edit of aish's changed in the"
        " editor: `ask`, `always` or `never`",
    )
    fences: bool = key(
        True, "offer to run code blocks tagged as shell, in addition to `CMD: ` lines"
    )
    repetition_guard: Literal["local", "all", "off"] = key(
        "local",
        "stop a reply that repeats itself: `local`: one of a model on this machine; `all`: any;"
        " `off`: none",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolServer:
    """An MCP server: a command that starts it, or an address.

    In all of its texts, `${NAME}` is replaced from aish's own environment (`$${NAME}` is left as
    `${NAME}`), and in those of a command a leading `~` by your home.
    """

    command: list[str] | None = key(None, "the command that starts it")
    url: str | None = key(None, "the address of a server that is already running")
    env: dict[str, str] = key({}, "environment variables for the command")
    cwd: str | None = key(None, "the folder it runs in; default: the workspace's")
    headers: dict[str, str] = key({}, "headers for each request to `url`")
    enabled: bool = key(True, "set to false to keep the entry without using it")
    off: list[str] = key([], "names of its tools that are not to be offered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Which tools a model may call, and tool servers by name."""

    max_rounds: int = key(
        20, "how many times the model may call tools in a turn", minimum=1, maximum=1000
    )
    share: float = key(
        0.1,
        "the share of the model's window that the descriptions of tools may take; beyond it, only"
        " their names and one line about each are sent",
        minimum=0,
        maximum=1,
    )
    servers: dict[str, ToolServer] = key(
        {}, "MCP servers by name; `aish` stands for the built-in tools, without command or url"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskRule:
    """The risk of the commands that ``match``."""

    match: str = key("", "the commands, written as a row of the command tables")
    risk: Literal["safe", "caution", "destructive"] = key("destructive", "their risk")
    reason: str = key("", "the reason shown when you are asked")
    confine: bool = key(True, "run commands that the rule calls safe confined")

    only_stricter: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse a ``match`` that is not a row."""
        if not _ROW.fullmatch(self.match):
            msg = "found no command to match; accepted: a command's name and conditions"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRule(RiskRule):
    """A workspace's rule: it can raise a command's risk, never lower it."""

    only_stricter: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """What may run without asking."""

    confirm: Literal["destructive", "always"] = key(
        "destructive",
        "which commands to ask about before they run: `destructive`: those that could lose"
        " something; `always`: all",
    )
    shell: str = key(
        "bash", "the shell that runs commands; unless it is bash or sh, no command counts as safe"
    )
    snapshot: bool = key(
        True, "keep a copy of the files before a command changes them, so that `:undo` works"
    )
    confine: bool = key(
        True,
        "run safe commands [confined](safety.md#confinement), so that they can change nothing, if"
        " the system supports it; a workspace's own settings cannot turn it off",
    )
    rules: list[RiskRule] = key(
        [],
        "rules of your own that take precedence over the command tables, each `{match, risk,"
        " reason, confine}` ([how a row is read](what-runs.md#rules-of-your-own)); a workspace's"
        " rules can only raise a command's risk",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellSettings:
    """Where commands and tool servers find their programs."""

    login: bool = key(
        False,
        "run commands and tool servers with the environment of your login shell, read once, instead"
        " of the editor's, and commands with what [direnv and mise](how-it-runs.md#direnv-and-mise)"
        " set in the folder",
    )
    client_terminal: bool = key(
        False,
        "run commands in a terminal of the [agent client](acp.md) if it has any, with its"
        " environment; those that are confined or only read run in aish's own runner",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Norris:
    """Limits of the autonomous loop."""

    max_steps: int = key(20, "the most steps towards a goal", minimum=1)
    max_minutes: float = key(30.0, "the most minutes for a goal", minimum=0)
    max_tokens: int = key(200_000, "the most tokens for a goal", minimum=1)
    max_dollars: float = key(1.0, "the most dollars for a goal", minimum=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration.

    If no preset is named ``default_model``, the first preset answers. Without any preset, it is a
    model server that was found, a provider whose key the user agreed to use, or the offline model.
    """

    default_model: str = key(
        "local",
        "the model that answers, by its name in `models`; if there is none of that name, the first"
        " one, or a server that was found on this machine, or the offline model",
    )
    models: dict[str, Preset] = key({}, "the models, by names that you choose")
    context: Context = field(default_factory=Context)
    tokenize: Tokenize = field(default_factory=Tokenize)
    memory: Memory = field(default_factory=Memory)
    project: ProjectSettings = field(default_factory=ProjectSettings)
    routing: Routing = field(default_factory=Routing)
    cost: Cost = field(default_factory=Cost)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    suggestions: SuggestionSettings = field(default_factory=SuggestionSettings)
    tools: Tools = field(default_factory=Tools)
    safety: Safety = field(default_factory=Safety)
    shell: ShellSettings = field(default_factory=ShellSettings)
    norris: Norris = field(default_factory=Norris)
