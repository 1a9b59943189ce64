"""What is taken for a secret, and what is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.foundation import redaction
from aish_lsp.foundation.redaction import REDACTED, find_secret, is_secret, is_secret_name, redact

# Put together here, so that no scanner takes this file for a leak.
LETTERS = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3lM6"
SECRETS = {
    "AKIA" + "ABCDEFGH12345678": "an AWS access key",
    "ghp_" + LETTERS: "a GitHub token",
    "github_pat_" + LETTERS: "a GitHub token",
    "glpat-" + LETTERS[:20]: "a GitLab token",
    "xoxb-" + "123456789012-abcdef": "a Slack token",
    "sk-ant-" + "api03-" + LETTERS: "a model provider's key",
    "sk-proj-" + LETTERS: "a model provider's key",
    "sk-" + LETTERS: "a model provider's key",
    "sk-test-" + LETTERS[:16]: "a model provider's key",
    "gsk_" + LETTERS: "a model provider's key",
    "pplx-" + LETTERS: "a model provider's key",
    "hf_" + LETTERS: "a model provider's key",
    "r8_" + LETTERS: "a model provider's key",
    "AIza" + LETTERS[:35]: "a Google key",
    "sk_live_" + LETTERS[:24]: "a Stripe key",
    "npm_" + LETTERS: "a package registry's token",
    "eyJ" + LETTERS + ".eyJ" + LETTERS + "." + LETTERS: "a JSON web token",
    "eyJ" + LETTERS + "." + LETTERS: "a JSON web token",
    "-----BEGIN OPENSSH " + "PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----": (
        "a private key"
    ),
    "-----BEGIN " + "PRIVATE KEY-----\ncut off": "a private key",
}

IN_CONTEXT = [
    ("the db is postgres://app:{}@db:5432/x", "s3cr3t", "a password in an address"),
    ("password={}", "hunter2", "a password or key"),
    ("DB_PASSWORD = {}", "correcthorse", "a password or key"),
    ('{{"password": "{}"}}', "let me in 2", "a password or key"),
    ("password: {}", "hunter22", "a password or key"),
    ("api-key: '{}'", "9f8e7d6c5b", "a password or key"),
    ("export API_KEY={}; run", "abcd1234efgh", "a password or key"),
    ("log in with --password {} then", "hunter22", "a password or key"),
    ("Authorization: Bearer {}", "abc123def456ghi789", "an Authorization header"),
    ("-H 'Authorization: Basic {}'", "dXNlcjpwYXNz", "an Authorization header"),
]

HARMLESS = [
    "We deploy with `make ship`.",
    "The password is asked for by sudo.",
    "password: ask Bob",
    "PASSWORD=$SECRET and PASSWORD=<yours> and password={{vault}}",
    "password=required",
    "token: see the docs",
    "token = get_token2()",
    "max_tokens=200000, token_budget=4096",
    "https://user:${PW}@host, https://localhost:8080/a@b, git@github.com:x/y.git",
    "sk-learn is scikit-learn; task-management-with-many-words",
    "sk-learn-like-estimators-and-pipelines, hf_hub_download_with_retries(), eyJ.x",
    "Authorization: Bearer $TOKEN; basic understanding of the bearer tokens",
    "Commit 6a7a240d9c1f2e3b4a5968778695a4b3c2d1e0f9 broke it",
    "Prefers passphrases to passwords",
    "primary key: id2345",
    "",
]


@pytest.mark.parametrize(("secret", "kind"), SECRETS.items())
def test_keys_are_known_by_their_form(secret: str, kind: str) -> None:
    text = f"use {secret}"
    assert find_secret(text) == kind
    assert redact(text) == f"use {REDACTED}"


@pytest.mark.parametrize(("text", "secret", "kind"), IN_CONTEXT)
def test_passwords_are_known_by_what_stands_around_them(text: str, secret: str, kind: str) -> None:
    assert find_secret(text.format(secret)) == kind
    assert redact(text.format(secret)) == text.format(REDACTED)


@pytest.mark.parametrize("text", HARMLESS)
def test_prose_code_and_placeholders_are_no_secrets(text: str) -> None:
    assert find_secret(text) is None
    assert redact(text) == text


def test_every_secret_of_a_text_goes_once_and_the_rest_stays() -> None:
    first, second = list(SECRETS)[:2]
    text = f"a {first} b token={second} c {first}"
    assert redact(text) == f"a {REDACTED} b token={REDACTED} c {REDACTED}"


@given(st.text(alphabet="ab1=: \"'@/-\n{[$", max_size=60))
def test_redaction_leaves_nothing_to_redact_and_agrees_with_the_finder(text: str) -> None:
    around = f"password {text} token {text} ://{text}@"
    assert (find_secret(around) is None) == (redact(around) == around)


@pytest.mark.parametrize(
    "piece", ["a", "eyJ-", "://a:", "token=", "--a-", "-----BEGIN PRIVATE KEY", "sk-or-", "= "]
)
@pytest.mark.slow
def test_a_hostile_text_costs_one_pass(piece: str) -> None:
    # Quadratic patterns would take many minutes; the suite's time-out is the bound.
    redact(piece * (200_000 // len(piece)))


@pytest.mark.parametrize("name", ["api_key", "apiKey", "X-Api-Key", "auth_token", "PASSWORD"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["token_budget", "max_tokens", "monkey", "keep_turns", "author"])
def test_names_that_only_sound_like_secrets(name: str) -> None:
    assert not is_secret_name(name)


def test_looks_of_secrets() -> None:
    assert is_secret("sk-ant-" + "x1" * 12)
    assert is_secret("Authorization: Basic dXNlcjpwYXNz")
    assert is_secret("Bearer abcdefghijklmnop")
    assert is_secret("password=hunter2")
    assert not is_secret("OPENAI_API_KEY")
    assert not is_secret("pplx-70b-online-chat")
    assert not is_secret("ask-the-desk-clerk-about-the-long-task-list")
    assert not is_secret("basic authentication is needed here")
    assert not is_secret("qwen2.5-coder-7b-instruct-q4_k_m")


pieces = st.sampled_from(
    [
        *(
            "password=hunter22",
            "api_key: 'a1b2c3d4e5'",
            "--token abc123def456",
            "TOKEN:",
            "a1b2c3d4",
        ),
        *(
            "Bearer abcdef0123456789abcdef",
            "Authorization: Basic dXNlcjpwYXNzd29yZA==",
            "pwd => q1w2e3",
        ),
        *("https://u:p4ssw0rd@h/x", "AKIA" + "ABCDEFGHIJKLMNOP", "ghp_" + "abcdefghijklmnop1234"),
        *(
            "eyJ" + "abcdefghijkl.eyJabcdefgh.sig",
            "hf_" + "a1b2c3d4e5f6g7h8i9",
            "rk_live_" + "abcdefghij123456",
        ),
        *(
            "sk-proj-" + "abcdefghijklmnop123",
            "xoxb-" + "1234567890ab",
            "ya29." + "abcdefghijklmnopqrstu",
        ),
        *("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----", "-----BEGIN X"),
        *("\n", "\r\n", " ", "\t", "-", "x", "é", "İ", "\u212a", "\u017fecret=abc123de", "\u2028"),
    ]
)


@given(st.lists(pieces, max_size=9).map("".join))
def test_a_line_without_a_hint_holds_no_secret(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_hinted_lines", lambda text: [(0, len(text))])
        whole = redact(text)
    assert redact(text) == whole
