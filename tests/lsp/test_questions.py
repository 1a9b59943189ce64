"""When the user is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from client import Client, execute


async def test_a_command_is_answered_before_the_user_is_asked_about_it(folder: Path) -> None:
    """For editors that wait for the answer, and have no time for the user meanwhile."""
    async with Client() as client:
        await client.initialize(folder)
        was_answered: list[bool] = []

        def no(params: Any) -> Any:
            was_answered.append(answer.done())
            return params["actions"][1]

        client.answers["window/showMessageRequest"] = no
        _, answer = await client.begin(
            "workspace/executeCommand", execute("aish.run", {"text": "rm -r x"})
        )
        await client.wait_for(lambda: was_answered, "a question")
        assert was_answered == [True]
        assert (await answer)["commandId"]
