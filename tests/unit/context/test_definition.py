"""The definition around some lines, in languages of many layouts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish_lsp.context.selection import definition_around

#: ``»`` stands before the selected line, ``|`` before the lines of what is found.
PYTHON = """\
import os

|@cache
|def one(
|    a,
|) -> int:
|    if a:

|        »return 1
|    return 2

def two():
    pass
"""
NESTED = """\
class A:
    x = 1

|    async def run(self):
|        with self.lock:
|            »self.x += 1
|        return self.x

    def stop(self): ...
"""
CLASS_OF_A_METHOD = """\
|class A:
|    »def run(self): return 1
|    def stop(self): return 2
"""
JAVASCRIPT = """\
const a = 1;
|export const handle = async (req, res) => {
|  for (const x of req.items) {
|    »send(x);
|  }
|};
const b = 2;
"""
ALLMAN = """\
int before;
|static int sum(int *a,
|               int n)
|{
|    int s = 0;
|    while (n--)
|    {
|        »s += a[n];
|    }
|    return s;
|}
int after;
"""
GO = """\
package main

|func (s *Server) Serve(w http.ResponseWriter) error {
|	if err := s.ready(); err != nil {
|		»return err
|	}
|	return nil
|}
"""
RUST = """\
impl Thing {
|    #[inline]
|    pub fn get(&self) -> Option<u8> {
|        match self.x {
|            »0 => None,
|            x => Some(x),
|        }
|    }
}
"""
LUA = """\
|local function f(a)
|  if a then
|    »print(a)
|  end
|end
print(f)
"""
SHELL = """\
set -e
|deploy() {
|  if true; then
|    »echo up
|  fi
|}
deploy
"""
TYPESCRIPT = """\
class A {
|  private load(
|    a: string,
|  ): Promise<void> {
|    »return this.x;
|  }
}
"""
NOTHING = """\
one:
  two:
    »three: 4
"""
PROSE = "A line.\n»Another line.\nfunction it is.\n"
TOP = "x = 1\n»y = 2\ndef f():\n    pass\n"
WHOLE = "»def f(): return 1\n"


@pytest.mark.parametrize(
    "marked",
    [
        *(PYTHON, NESTED, CLASS_OF_A_METHOD, JAVASCRIPT, ALLMAN, GO, RUST, LUA, SHELL),
        *(TYPESCRIPT, NOTHING, PROSE, TOP, WHOLE),
    ],
)
def test_it_is_found_by_the_layout(marked: str) -> None:
    lines = marked.split("\n")
    wanted = [at for at, line in enumerate(lines) if line.startswith("|")]
    selected = next(at for at, line in enumerate(lines) if "»" in line)
    plain = [line.removeprefix("|").replace("»", "") for line in lines]
    found = definition_around(plain, selected, selected)
    assert found == ((wanted[0], wanted[-1]) if wanted else None)


def test_lines_beyond_a_definition_are_of_the_one_around_it() -> None:
    lines = ["class A:", "    def f():", "        1", "    def g():", "        2"]
    assert definition_around(lines, 2, 4) == (0, 4)
    assert definition_around(lines, 0, 4) is None
    assert definition_around(lines, 1, 1) == (1, 2)


def test_blanks_have_none() -> None:
    assert definition_around(["def f():", "", "    x"], 1, 1) is None


@given(st.data())
def test_whatever_the_text_it_holds_the_lines(data: st.DataObject) -> None:
    line = st.text(alphabet="\t {}()=>;defclass:x@#*/\"'", max_size=20)
    lines = data.draw(st.lists(line, min_size=1, max_size=30))
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    found = definition_around(lines, first, last)
    if found is not None:
        assert 0 <= found.first <= first <= last <= found.last < len(lines)
        assert found != (first, last)
