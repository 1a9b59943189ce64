"""What a server holds after a long session, in fast motion: questions, and the commands between.

    python tests/bench/bench_long.py [QUESTIONS]

Two questions come with five commands. Memory and descriptors at the end are held against those
after the first tenth, when everything is loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from measuring import Row, idle, main, memory_of
from stage import AISH, question, stage

# isort: split
from client import Client

#: How often both are looked at after the first tenth.
LOOKS: Final = 9


async def ask_and_run(client: Client, number: int) -> None:
    """Ask a question, and run two or three commands."""
    token = {"partialResultToken": f"t{number}"}
    await client.command_result("aish.ask", {"prompt": question(20, 0), **token})
    for _ in range(2 + number % 2):
        await client.command_result("aish.run", {"text": f"echo {number}", **token})
    # Else it is this client that grows.
    client.progress.clear()
    client.notifications.clear()


async def rows(questions: int) -> list[Row]:
    """Hold the session."""
    memory: list[float] = []
    descriptors: list[float] = []
    with stage() as made:
        async with Client(command=AISH) as client:
            await client.initialize(made.workspace)
            pid = client.process.pid
            for number in range(questions):
                await ask_and_run(client, number)
                if (number + 1) % (questions // (LOOKS + 1)) == 0:
                    await idle(pid)
                    memory.append(memory_of(pid))
                    descriptors.append(len([*Path(f"/proc/{pid}/fd").iterdir()]))
    name, tenth = f"{questions:,} questions, {questions * 5 // 2:,} commands", "after a tenth"
    return [
        Row(f"{name}: memory", tenth, memory[1:], memory[:1] * LOOKS, 1.05, unit="MB"),
        Row(f"{name}: descriptors", tenth, descriptors[1:], descriptors[:1] * LOOKS, 1, unit=""),
    ]


if __name__ == "__main__":
    main(rows, 2_000)
