from __future__ import annotations

import page


def test_the_page_is_current() -> None:
    assert page.PAGE.read_text() == page.page()
