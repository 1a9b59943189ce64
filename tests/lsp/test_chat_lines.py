"""The `:` commands and their completion, for a client with a chat of its own: a real server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from client import CAPABILITIES, Client, RpcError
from conversing import Place, begin, streamed, yes
from fault_server import FaultServer, Peer, Request, chunk_of

from aish_lsp.chat.colon import COLON_COMMANDS

LINES = [line.words for row in COLON_COMMANDS.rows.values() for _, line in row.lines]


@pytest.fixture
async def client(clean_home: Path, folder: Path) -> AsyncIterator[Client]:
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_text("x\n")
    async with Client() as client:
        await client.initialize(folder)
        yield client


async def sent(client: Client, line: str, token: str | None = None, **fields: Any) -> Any:
    argument = {"line": line, "partialResultToken": token, **fields}
    return await client.command_result("aish.chat.line", argument)


async def refused(client: Client, line: str, token: str | None = None, **fields: Any) -> RpcError:
    with pytest.raises(RpcError) as error:
        await sent(client, line, token, **fields)
    return error.value


async def completed(client: Client, prefix: str, **fields: Any) -> Any:
    return await client.command_result("aish.chat.complete", {"prefix": prefix, **fields})


async def asked(client: Client, prompt: str) -> Any:
    argument = {"prompt": prompt, "partialResultToken": prompt}
    return await client.command_result("aish.ask", argument)


#: How a line is refused that nothing stands behind yet.
REFUSALS = {"invalidArgument", "notFound", "denied", "busy", "backendUnavailable"}

SENTENCE = re.compile(r"\A[A-Z`].* .*\.\Z", re.DOTALL)

# Carried out


@pytest.mark.parametrize("argument", ["", " 1", " fact one"])
async def test_each_line_is_carried_out_or_refused_with_a_sentence(
    client: Client, argument: str
) -> None:
    flaws = []
    for words in LINES:
        line = f":{words}{argument}"
        try:
            done = await sent(client, line, line)
        except RpcError as error:
            kind = (error.data or {}).get("kind")
            if kind not in REFUSALS or not SENTENCE.search(error.message):
                flaws.append(f"{line}: {kind}: {error.message}")
            continue
        if done["comes"] is None:
            is_sound = done["text"].strip() and done["result"] is None
        else:
            is_sound = done["result"] and client.progress[line][-1]["kind"] == "end"
        if not (is_sound and done["session"]):
            flaws.append(f"{line}: {done}")
    assert flaws == [], "\n".join(flaws)


async def test_what_comes_whole_is_its_text(client: Client) -> None:
    shown = (await asked(client, "how do I list the files here?"))["sessionId"]
    done = await sent(client, ":help")
    assert ":undo" in done["text"]
    assert ":memory" not in done["text"]
    assert ":memory" in (await sent(client, ":help all"))["text"]
    assert done == {"session": shown, "text": done["text"], "comes": None, "result": None}
    told = await sent(client, ":remember tests run by ./dev test")
    assert told["text"].startswith("Remembered as item 1.")
    assert "./dev test" in (await sent(client, ":memory"))["text"]
    assert client.asked("window/showMessageRequest") == []


async def test_a_command_streams_its_output(client: Client) -> None:
    done = await sent(client, ":run echo hi", "run")
    assert (done["comes"], done["text"]) == ("output", "")
    assert (done["result"]["finishReason"], done["result"]["exitCode"]) == ("stop", 0)
    assert streamed(client, "run", "output") == "hi\n"
    assert client.progress["run"][-1] == {"kind": "end", "finishReason": "stop", "error": None}
    block = await sent(client, ":run\n```sh\necho one\necho two\n```", "block")
    assert block["result"]["output"] == "one\ntwo\n"


async def test_a_suggestion_is_run_by_its_number_and_a_question_asked_again(client: Client) -> None:
    reply = await asked(client, "how do I list the files here?")
    again = await sent(client, ":retry", "again")
    assert again["comes"] == "reply"
    assert again["result"]["text"] == streamed(client, "again") == reply["text"]
    assert again["result"]["turnId"] != reply["turnId"]
    run = await sent(client, ":run 1", "run")
    assert "src" in streamed(client, "run", "output")
    assert run["result"]["commandId"] == again["result"]["commands"][0]["id"]


async def test_a_cancelled_request_stops_the_command(client: Client) -> None:
    line = {"line": ":run echo begun; sleep 100", "partialResultToken": "run"}
    number, answer = await begin(client, "aish.chat.line", line)
    await client.wait_for(lambda: streamed(client, "run", "output"), "the first output")
    await client.notify("$/cancelRequest", {"id": number})
    done = await client.within(answer, "the end of it")
    assert done["result"]["finishReason"] == "cancelled"
    assert "begun" in done["result"]["output"]


async def test_what_nobody_was_asked_about_is_approved(client: Client, folder: Path) -> None:
    denied = await sent(client, ":run rm src/app.py", "run")
    assert denied["result"]["finishReason"] == "denied"
    done = await sent(client, f":approve {denied['result']['commandId']}", "approve")
    assert (done["comes"], done["result"]["exitCode"]) == ("output", 0)
    assert not (folder / "src" / "app.py").exists()


async def test_another_session_is_shown(client: Client) -> None:
    await asked(client, "how do I list the files here?")
    first = (await sent(client, ":help"))["session"]
    new = await sent(client, ":session new")
    assert new["session"] != first
    assert new["session"] in new["text"]
    back = await sent(client, f":resume {first}")
    assert back["session"] == first
    assert "with 2 messages" in back["text"]


async def test_a_session_beside_is_meant_by_its_id(client: Client) -> None:
    await asked(client, "how do I list the files here?")
    shown = (await sent(client, ":help"))["session"]
    beside = (await client.command_result("aish.session.new", {"show": False}))["id"]
    there = await refused(client, ":retry", "there", session=beside)
    assert there.data["kind"] == "notFound"
    saved = await sent(client, ":session save other", session=beside)
    assert saved["session"] == shown
    gone = await refused(client, ":help", session="nosuch")
    assert gone.data["kind"] == "notFound"


async def test_the_folder_that_was_guessed_is_told(clean_home: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for one in folders:
        one.mkdir()
    async with Client() as client:
        await client.initialize(*folders)
        await sent(client, ":run pwd", "named", workspace=folders[1].as_uri())
        assert client.notified("window/showMessage") == []
        done = await sent(client, ":run pwd", "guessed")
        assert done["result"]["output"].strip().endswith("two")
        [told] = client.notified("window/showMessage")
        assert "the folder last used" in told["message"]


# Refused


async def test_what_streams_needs_a_token(client: Client) -> None:
    error = await refused(client, ":run echo hi")
    assert (error.data["kind"], error.data["path"]) == ("invalidArgument", "partialResultToken")
    assert "token" in error.message


@pytest.mark.parametrize("line", ["", "how do I list files?", ":help\nplease", " :help"])
async def test_what_is_no_command_is_refused(client: Client, line: str) -> None:
    error = await refused(client, line, "token")
    assert (error.data["kind"], error.data["path"]) == ("invalidArgument", "line")
    assert "`aish.ask`" in error.message


async def test_of_an_unknown_one_the_nearest_is_told(client: Client) -> None:
    error = await refused(client, ":modle")
    assert error.data["kind"] == "notFound"
    assert "Did you mean `:model`" in error.message
    error = await refused(client, ":undo all of it please", "token")
    assert error.data["kind"] == "invalidArgument"


async def test_what_is_told_beside_a_result_is_not_lost(client: Client, clean_home: Path) -> None:
    (clean_home / "config.toml").write_text("[models\n")
    listed = await sent(client, ":model")
    assert "config.toml" in listed["text"]
    assert "**offline**" in listed["text"]
    (clean_home / "config.toml").write_text("nosuch = 1\n")
    await refused(client, ":model nosuch")
    assert "config.toml" in client.notified("window/showMessage")[-1]["message"]


async def test_a_client_that_cannot_ask_is_answered_before_the_question(
    clean_home: Path, folder: Path
) -> None:
    window = {"workDoneProgress": True}
    async with Client() as client:
        client.answers["window/showMessageRequest"] = yes
        await client.initialize(folder, capabilities=CAPABILITIES | {"window": window})
        await sent(client, ":remember one")
        error = await refused(client, ":memory clear")
        assert error.data["kind"] == "busy"
        await client.wait_for(lambda: client.notified("window/showMessage"), "what came of it")
        assert "Forgot 1 item." in client.notified("window/showMessage")[-1]["message"]


# With a model


async def finds(request: Request, peer: Peer) -> None:
    """Answer with two things worth remembering."""
    if not request.path.endswith("/chat/completions"):
        await peer.reply({}, "404 Not Found")
        return
    await peer.head()
    await peer.event(chunk_of("fact: the tests run by ./dev test\npref: short answers\n"))
    await peer.event(chunk_of("", finish_reason="stop"))
    await peer.event("[DONE]")


async def test_candidates_are_listed_and_kept_by_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    place = Place.make(tmp_path / "place")
    async with FaultServer(finds) as model:
        place.configure(model.url, context_window=8192)
        async with place.client() as client:
            await client.initialize(place.folder)
            none = await refused(client, ":memory accept 1")
            assert none.data["kind"] == "notFound"
            nothing = await sent(client, ":memory summarize", "nothing")
            assert (nothing["comes"], nothing["text"]) == ("candidates", "")
            await asked(client, "how are the tests run?")
            found = await sent(client, ":memory summarize", "found")
            assert found["comes"] == "candidates"
            assert [one["kind"] for one in found["result"]["candidates"]] == ["fact", "pref"]
            assert "- [ ] 2. (pref) short answers" in found["text"]
            numbers = await completed(client, ":memory accept ")
            assert [item["label"] for item in numbers["items"]] == ["1", "2"]
            kept = await sent(client, ":memory accept 2")
            assert "short answers" in kept["text"]
            other = await sent(client, ":memory accept 1 they run by ./dev quick")
            assert "./dev quick" in other["text"]
            listed = await client.command_result("aish.memory.list")
            assert len(listed["items"]) == 2
            # A session with nothing in it has no list: the one that was shown counts.
            await sent(client, ":session new")
            await sent(client, ":memory summarize", "again")
            assert "short answers" in (await sent(client, ":memory accept 2"))["text"]


async def reaches(request: Request, peer: Peer) -> None:
    """Answer that the goal is reached."""
    if not request.path.endswith("/chat/completions"):
        await peer.reply({}, "404 Not Found")
        return
    await peer.head()
    await peer.event(chunk_of("All is tidy.\n\nGOAL: complete\n"))
    await peer.event(chunk_of("", finish_reason="stop"))
    await peer.event("[DONE]")


async def test_a_goal_is_pursued(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    place = Place.make(tmp_path / "place")
    async with FaultServer(reaches) as model:
        place.configure(model.url, context_window=8192)
        async with place.client() as client:
            client.answers["window/showMessageRequest"] = yes
            await client.initialize(place.folder)
            done = await sent(client, ":norris tidy up", "goal")
            assert done["comes"] == "reply"
            assert "All is tidy." in streamed(client, "goal")
            assert done["result"]["outcome"] == "complete"


# Completed


async def test_commands_and_their_arguments_are_completed(client: Client) -> None:
    found = await completed(client, ":mod")
    assert found["isIncomplete"] is False
    [item] = found["items"]
    assert item["label"].startswith(":model")
    assert (item["insert"], item["start"], item["kind"]) == (":model ", 0, "command")
    assert item["detail"] == COLON_COMMANDS.rows["model"].help
    models = (await completed(client, ":model "))["items"]
    assert [(item["insert"], item["start"]) for item in models if item["label"] == "offline"] == [
        ("offline", 7)
    ]
    added = (await completed(client, ":memory add f"))["items"]
    assert [(item["insert"], item["start"]) for item in added] == [("fact", 12)]
    every = (await completed(client, ":"))["items"]
    assert {item["insert"].strip() for item in every} == {
        f":{name}" for name in COLON_COMMANDS.rows
    }
    assert (await completed(client, ""))["items"] == []
    assert (await completed(client, "no command :mod"))["items"] == []


async def test_files_are_completed_behind_an_at_sign(client: Client) -> None:
    found = await completed(client, "@sr")
    assert found["isIncomplete"] is True
    assert found["items"] == [
        {"label": "src/", "insert": "@src/", "detail": "", "start": 0, "kind": "folder"},
        {"label": "src/app.py", "insert": "@src/app.py", "detail": "", "start": 0, "kind": "file"},
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_the_start_counts_utf_16_code_units(
    clean_home: Path, folder: Path, encoding: str
) -> None:
    (folder / "\N{GRINNING FACE} a.md").write_text("x\n")
    capabilities = CAPABILITIES | {"general": {"positionEncodings": [encoding]}}
    async with Client() as client:
        await client.initialize(folder, capabilities=capabilities)
        [item] = (await completed(client, "\u00e9\N{GRINNING FACE} what is @a"))["items"]
        assert item["start"] == 12
        assert item["insert"] == '@"\N{GRINNING FACE} a.md"'


async def test_the_names_of_sessions_are_completed(client: Client) -> None:
    await asked(client, "how do I list the files here?")
    await sent(client, ":session save first")
    names = [item["label"] for item in (await completed(client, ":resume "))["items"]]
    assert names[0] == "first"
    with pytest.raises(RpcError, match="not open") as error:
        await completed(client, ":resume ", session="nosuch")
    assert error.value.data["kind"] == "notFound"
