"""How fast the pages answer a reader, in a real browser, and what ten readers cost: python -m tests.pages.speed FILE

Three times for every page, each the median of TIMES and the longest, in seconds, on a server that has answered before:
an address, in a browser that has seen nothing, which loads Streamlit too; a page change, from the click on its link
in the sidebar of an open app; and a filter change, from the Enter that ends it. Every change asks for a filter that
nobody has asked for before. Time ends when the page stands: its script has ended, nothing on it is out of date and
every chart is drawn.
Then SESSIONS readers, each on a page and a filter of their own; the server's memory is its highest.
"""

import itertools
import os
import sys
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, Page

from pages.parts.shell import NAMES
from tests.pages.conftest import chromium, process

TIMES, SESSIONS = 10, 10
UNFILTERED = ("sql", "about")  # they show no positions
STANDS = """() => {
    const app = document.querySelector('[data-testid=stApp]');
    if (!app || app.dataset.testScriptState !== 'notRunning' || !document.querySelector('h1')) return false;
    if (document.querySelector('[data-stale=true], [data-testid=stSkeleton]')) return false;
    return [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].every(chart => chart.querySelector('canvas, svg'));
}"""
RUNS = "document.querySelector('[data-testid=stApp]').dataset.testScriptState !== 'notRunning'"
POSITIONS = itertools.count(2)  # the least position of each new filter


def stand(page: Page) -> None:
    page.wait_for_function(STANDS, polling=20, timeout=120_000)


def first_view(browser: Browser, address: str, name: str) -> float:
    with browser.new_context(viewport={"width": 1400, "height": 900}) as context:
        page = context.new_page()
        start = time.perf_counter()
        page.goto(f"{address}/{name}")
        stand(page)
        return time.perf_counter() - start


def page_changes(browser: Browser, address: str, name: str) -> list[float]:
    """Seconds of each way to the page from another."""
    other = "sql" if name == "about" else "about"
    with browser.new_context(viewport={"width": 1400, "height": 900}) as context:
        page = context.new_page()
        page.goto(f"{address}/{name}")
        stand(page)
        found = []
        for _ in range(TIMES):
            follow(page, other)
            found.append(follow(page, name))
        return found


def follow(page: Page, name: str) -> float:
    title = page.locator("h1").inner_text()
    start = time.perf_counter()
    page.locator(f'[data-testid=stSidebarNavLink][href*="/{name}"]').click()
    page.wait_for_function("title => document.querySelector('h1')?.innerText !== title", arg=title, polling=20)
    stand(page)
    return time.perf_counter() - start


def filter_change(page: Page) -> float:
    """Seconds from the Enter behind a new least position until the page stands."""
    box = page.get_by_label("Position, from")
    box.fill(str(next(POSITIONS)))
    start = time.perf_counter()
    box.press("Enter")
    page.wait_for_function(RUNS, polling=5)
    stand(page)
    return time.perf_counter() - start


def changes(browser: Browser, address: str, name: str) -> list[float]:
    with browser.new_context(viewport={"width": 1400, "height": 900}) as context:
        page = context.new_page()
        page.goto(f"{address}/{name}")
        stand(page)
        page.get_by_text("Choose positions").click()
        filter_change(page)  # what a page loads once is then there
        return [filter_change(page) for _ in range(TIMES)]


def memory(pid: int) -> float:
    """The most that the process has held at once, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def cells(times: list[float]) -> str:
    return f"{median(times):.2f} | {max(times):.2f}" if times else " | "


def main(path: Path) -> None:
    print(f"{path.name}, {path.stat().st_size / 1e6:,.0f} MB; {os.cpu_count()} cores; seconds, {TIMES} times each\n")
    print("| page | address, median | longest | page change, median | longest | filter change, median | longest |\n|---|---:|---:|---:|---:|---:|---:|")
    with process("--db", str(path), threads=None) as (address, pid), chromium() as browser:
        for name in NAMES:
            first_view(browser, address, name)
            views = [first_view(browser, address, name) for _ in range(TIMES)]
            print(f"| {name} | {cells(views)} | {cells(page_changes(browser, address, name))} | {cells(changes(browser, address, name) if name not in UNFILTERED else [])} |", flush=True)
        alone = memory(pid)
        contexts = [browser.new_context() for _ in range(SESSIONS)]
        for context, name in zip(contexts, itertools.cycle(NAMES)):
            page = context.new_page()
            page.goto(f"{address}/{name}?position_from={next(POSITIONS)}")
            stand(page)
        print(f"\nThe server's memory at its highest: {alone:,.0f} MB by then, {memory(pid):,.0f} MB with {SESSIONS} more sessions open.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
