from __future__ import annotations

import json
from pathlib import Path

import pytest

from aish_lsp.config.loading import Configuration
from aish_lsp.config.trust import TrustStore
from aish_lsp.shell.risk import UNHELD, Verdict, classify


class Place:
    """A workspace and a user, whose configuration is read as a server reads it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = folder / "config.toml"
        self.overlay = folder / "work" / ".aish.toml"
        self.overlay.parent.mkdir()
        self.trust = TrustStore(folder / "trust.json")
        monkeypatch.setenv("AISH_CONFIG", str(self.file))

    def open(self, **environ: str) -> Configuration:
        return Configuration(self.overlay.parent, self.trust, environ)

    def judged(self, text: str) -> Verdict:
        safety = self.open().config.safety
        return classify(text, safety.shell, rules=safety.rules, confined=True)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def rule(match: str, risk: str, reason: str = "because", *, confine: bool = True) -> str:
    row = f'[[safety.rules]]\nmatch = "{match}"\nrisk = "{risk}"\nreason = "{reason}"\n'
    return row if confine else f"{row}confine = false\n"


def test_a_rule_of_the_users_may_say_anything(place: Place) -> None:
    place.file.write_text(
        rule("make deploy", "destructive", "deploys")
        + rule("rm !-r", "caution", "one file")
        + rule("./check.sh", "safe")
        + rule("just lint|test operands:0", "safe")
        + rule("docker exec web ls", "safe")
    )
    assert place.judged("cd a && make -j2 deploy") == Verdict("destructive", ("deploys",))
    assert place.judged("make test").risk == "caution"
    assert place.judged("rm x") == Verdict("caution", ("one file",))
    assert place.judged("rm -r x").risk == "destructive"
    assert place.judged("./check.sh; just lint").risk == "safe"
    assert place.judged("./check.sh > ~/.bashrc").risk == "destructive"
    assert place.judged("docker exec web ls").risk == "safe"


def test_a_workspaces_rule_needs_a_grant_and_only_makes_stricter(place: Place) -> None:
    place.file.write_text(rule("make test", "caution", "mine"))
    place.overlay.write_text(
        rule("rm", "safe") + rule("git log", "destructive", "theirs") + rule("make test", "safe")
    )
    assert place.judged("git log").risk == "safe", "not granted"
    configuration = place.open()
    configuration.grant(configuration.loaded.requests)
    assert place.judged("git log") == Verdict("destructive", ("theirs",))
    assert place.judged("rm x").risk == "destructive"
    assert place.judged("make test") == Verdict("caution", ("mine",))


@pytest.mark.parametrize("confined", [True, False])
def test_a_rule_of_the_users_alone_lets_a_safe_command_run_unconfined(
    place: Place, *, confined: bool
) -> None:
    place.file.write_text(rule("just lint", "safe", confine=False) + rule("just test", "safe"))
    place.overlay.write_text(rule("just test", "safe", confine=False))
    configuration = place.open()
    configuration.grant(configuration.loaded.requests)
    rules = place.open().config.safety.rules

    def judged(text: str) -> Verdict:
        return classify(text, "bash", rules=rules, confined=confined)

    held = Verdict("safe") if confined else Verdict("caution", (UNHELD,))
    for text in ("just lint", "just lint; just lint > /dev/null", "timeout 5 just lint"):
        assert judged(text) == Verdict("safe", (), confine=False)
    assert judged("just test; ls") == held
    # Nothing holds what stands beside it to reading.
    for text in ("just lint; ls", "just lint | head", "just lint < f", 'just lint "$x"'):
        assert judged(text) == Verdict("caution", (UNHELD,)), text
    assert judged("just lint; just build").risk == "caution"
    assert UNHELD not in judged("just lint; just build").reasons


def test_an_editors_rules_stand_beside_the_users(place: Place) -> None:
    place.file.write_text(rule("make", "destructive", "mine"))
    configuration = place.open()
    row = {"match": "rm", "risk": "safe", "reason": ""}
    configuration.update("workspace/configuration", {"safety": {"rules": [row]}})
    configuration.grant(configuration.loaded.requests)
    rules = configuration.config.safety.rules
    assert [(found.match, found.only_stricter) for found in rules] == [
        ("make", False),
        ("rm", True),
    ]
    assert classify("rm x", "bash", rules=rules, confined=True).risk == "destructive"


def test_a_rule_for_a_pattern_of_names_counts_beside_one_for_a_name(place: Place) -> None:
    place.file.write_text(rule("npm*", "destructive", "mine") + rule("npm test", "safe"))
    rules = place.open().config.safety.rules
    for text in ("npm run build", "npm test", "npmx"):
        assert classify(text, "bash", rules=rules, confined=True).reasons == ("mine",), text
    place.file.write_text(rule("*", "caution") + rule("rm", "destructive", "mine"))
    rules = place.open().config.safety.rules
    for text in ("rm x", "/bin/rm x", "rm.exe x"):
        assert classify(text, "bash", rules=rules, confined=True).reasons == ("mine",), text


@pytest.mark.parametrize("confine", [True, False])
def test_of_two_safe_rows_the_one_for_the_name_says_whether_it_is_confined(
    place: Place, *, confine: bool
) -> None:
    place.file.write_text(
        rule("npm*", "safe", confine=not confine) + rule("npm test", "safe", confine=confine)
    )
    rules = place.open().config.safety.rules
    assert classify("npm test", "bash", rules=rules, confined=True).confine == confine


def test_rules_come_from_a_variable_too(place: Place) -> None:
    row = {"match": "make", "risk": "safe"}
    configuration = place.open(AISH_SAFETY__RULES=json.dumps([row]))
    assert (
        classify("make", "bash", rules=configuration.config.safety.rules, confined=True).risk
        == "safe"
    )


@pytest.mark.parametrize(
    ("match", "named"),
    [("", "match"), ("-f", "match"), ("!-f", "match"), ("a operands:x", "match")],
)
def test_what_is_no_row_is_refused_and_told(place: Place, match: str, named: str) -> None:
    place.file.write_text(rule(match, "safe"))
    configuration = place.open()
    assert configuration.config.safety.rules == []
    assert [problem.path for problem in configuration.loaded.problems] == ["safety.rules[0]"]
    assert named in configuration.loaded.problems[0].message


def test_an_unknown_risk_is_refused(place: Place) -> None:
    place.file.write_text(rule("make", "harmless"))
    assert [p.path for p in place.open().loaded.problems] == ["safety.rules[0].risk"]
