"""The file at hand, as an editor names it, through the real server."""

from __future__ import annotations

from pathlib import Path

from client import Client


async def parts(client: Client) -> dict[str, int]:
    shown = await client.command_result("aish.context.show")
    breakdown: dict[str, int] = shown["breakdown"]
    return breakdown


async def ask(client: Client, prompt: str, **params: object) -> None:
    fields = {"prompt": prompt, "partialResultToken": prompt, **params}
    await client.command_result("aish.ask", fields)


async def test_a_question_s_document_brings_its_folder_s_instructions(folder: Path) -> None:
    (folder / "web").mkdir()
    (folder / "web" / "AGENTS.md").write_text("Use blanks.\n" * 20)
    (folder / "web" / "app.ts").write_text("let a = 1\n")
    (folder / "README.md").write_text("Read me.\n")
    async with Client() as client:
        await client.initialize(folder)
        await ask(client, "run the tests")
        assert (await parts(client))["instructions"] == 0
        await ask(client, "build", uri=(folder / "web" / "app.ts").as_uri())
        nested = (await parts(client))["instructions"]
        assert nested > 20
        # It stays with questions that name no file, and goes with one that names another.
        await ask(client, "lint")
        assert (await parts(client))["instructions"] == nested
        await ask(client, "what is in @README.md ?")
        assert (await parts(client))["instructions"] == 0
        await ask(client, "what is in @web/app.ts ?")
        assert (await parts(client))["instructions"] == nested


async def test_the_tasks_count_as_the_project_s(folder: Path) -> None:
    async with Client() as client:
        await client.initialize(folder)
        await ask(client, "run the tests")
        assert (await parts(client))["project"] == 0
        (folder / "Makefile").write_text("test:\n")
        await ask(client, "and now?")
        with_line = (await parts(client))["project"]
        (folder / "Makefile").write_text("")
        await ask(client, "build")
        assert 0 < (await parts(client))["project"] < with_line
