"""How long the pages take while somebody runs a query without end on the SQL page: python -m tests.pages.bombs FILE

One reader walks through all pages by the links of the sidebar, first alone, then while another reader's
bomb runs, which is asked again whenever its limits have ended it. A time is from the click until the
new page stands, see tests/pages/speed.py: the median of VISITS, in seconds.
"""

import os
import sys
from pathlib import Path
from statistics import median
from urllib.parse import quote

from playwright.sync_api import Browser, Page

from pages.parts.shell import NAMES
from tests.pages.conftest import chromium, server
from tests.pages.speed import follow, stand

VISITS = 3
BOMBS = {
    "endless join": "select count(*) from range(100000) a, range(10000000) b where a.range < b.range",
    "huge list": "select len(list_transform(range(200000000), lambda x: x + 1))",
}


class Bomb:
    """Another reader, whose query runs whenever `burn` comes back."""

    def __init__(self, browser: Browser, address: str, query: str) -> None:
        self._page = browser.new_page()
        self._page.goto(f"{address}/sql?query={quote(query)}")

    def burn(self) -> None:
        running = self._page.get_by_test_id("stProgress")
        while not running.count():
            if self._page.get_by_test_id("stAlert").count():
                self._page.get_by_role("button", name="Run", exact=True).click()
            self._page.locator("[data-testid=stProgress], [data-testid=stAlert]").first.wait_for()

    def end(self) -> None:
        self._page.close()


def walk(page: Page, bomb: Bomb | None) -> dict[str, float]:
    """The median time of every page."""
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(VISITS):
        for name in NAMES:
            if bomb:
                bomb.burn()
            times[name].append(follow(page, name))
    return {name: median(found) for name, found in times.items()}


def show(name: str, times: dict[str, float]) -> None:
    print(f"{name:14}" + "".join(f"{seconds:>10.2f}" for seconds in times.values()), flush=True)


def main(path: Path) -> None:
    print(f"{path.name}, {os.cpu_count()} cores, seconds, median of {VISITS}")
    print(" " * 14 + "".join(f"{name:>10}" for name in NAMES), flush=True)
    with server("--db", str(path)) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(f"{address}/{NAMES[-1]}")
        stand(page)
        for name in NAMES:  # every answer is then remembered, as it is for all readers but the first
            follow(page, name)
        show("quiet", walk(page, None))
        for name, query in BOMBS.items():
            bomb = Bomb(browser, address, query)
            show(name, walk(page, bomb))
            bomb.end()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
