"""The page in a browser, on flows that threads run (their cost per row is emulated) and on runs told by tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from reshape.observe.event_log import EventLog
from reshape.page.replay import ReplayedRun
from reshape.page.runs import Runs
from reshape.page.server import PageServer

from .conftest import OpenPage
from .telling import RecordedRun, a_run, decision_event, flow_event, report_event, shown_event, tell
from .threaded import HOT_KEY, ThreadedQuery

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
Served = tuple[Runs, PageServer]


@pytest.fixture
def query() -> Iterator[ThreadedQuery]:
    """Rows come for some seconds, so that there is something to watch."""
    made = ThreadedQuery("watched", 20_000, 12.0)
    yield made
    made.end()


def bar(page: Page, name: str) -> int:
    """The value beside a bar."""
    row = page.locator(".bars li").filter(has=page.locator(".name", has_text=re.compile(f"^{name}$")))
    title = row.locator(".value").get_attribute("title") or "0"
    return int(title.split(",  ")[0].split(", ")[0].replace(",", ""))


def violations(page: Page) -> list[str]:
    """What axe finds serious or critical."""
    page.evaluate(AXE.read_text())
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def test_a_running_flow_is_seen_growing_and_sharing_its_load(
    query: ThreadedQuery, served: Served, open_url: OpenPage
) -> None:
    runs, server = served
    page = open_url(server.url(runs.add(query.watched())))
    assert page.url == server.address, "the token is not in the address bar any more"
    expect(page.locator("h2")).to_have_text("watched")
    expect(page.locator(".bars .name").filter(has_text=HOT_KEY)).to_be_visible()
    before = bar(page, HOT_KEY)
    page.wait_for_function(
        "([name, before]) => [...document.querySelectorAll('.bars li')].some((row) =>"
        " row.children[0].textContent === name && parseInt(row.children[2].title.replaceAll(',', '')) > before)",
        arg=[HOT_KEY, before],
    )
    expect(page.locator("[data-role=skewed]").first).to_be_attached()
    expect(page.locator("[data-arrow]").first).to_be_attached()
    expect(page.locator(".node.skewed").first).to_be_attached()
    expect(page.locator(".kind[data-kind=transfer]").first).to_be_visible()
    expect(page.locator(".hot tbody tr").first).to_contain_text(HOT_KEY)


def test_the_buttons_pause_resume_and_stop(query: ThreadedQuery, served: Served, open_url: OpenPage) -> None:
    runs, server = served
    page = open_url(server.url(runs.add(query.watched())))
    page.locator("[data-action=pause]").click()
    expect(page.locator(".badge")).to_have_text("paused")
    assert query.flow.attempts.paused
    page.locator("[data-action=resume]").click()
    expect(page.locator(".badge")).to_have_text("running")
    assert not query.flow.attempts.paused
    expect(page.locator(".kind[data-kind=resumed]")).to_be_visible()
    page.locator("[data-action=stop]").click()
    expect(page.locator(".badge")).to_have_text("stopped")
    expect(page.locator("[data-action]")).to_have_count(0)
    expect(page.get_by_role("progressbar", name="Progress")).not_to_have_attribute("aria-valuenow", "100")
    assert not query.isActive


def test_an_event_tells_its_story_on_a_click_and_by_the_keyboard(served: Served, open_url: OpenPage) -> None:
    runs, server = served
    page = open_url(server.url(runs.add(RecordedRun(a_run()))))
    entry = page.locator(".entries button").filter(has_text="worker 0 is skewed")
    entry.click()
    story = page.locator(".story")
    expect(story).to_contain_text("In join (operator 0).")
    expect(story).to_contain_text("About worker 0, helped by 3")
    expect(story).to_contain_text("Then, at 0.9 s: the mitigation ends")
    expect(page.locator(".column.chosen")).to_have_count(2)
    entry.press("Enter")
    expect(story).to_have_count(0)
    entry.press("Space")
    expect(entry).to_have_attribute("aria-expanded", "true")


def test_two_runs_are_seen_side_by_side(served: Served, open_url: OpenPage) -> None:
    runs, server = served
    numbers = [runs.add(RecordedRun(a_run(), name)) for name in ("none", "reshape")]
    page = open_url(server.url(numbers[1]))
    expect(page.locator(".run")).to_have_count(1)
    page.locator("#second").select_option(str(numbers[0]))
    expect(page.locator(".run")).to_have_count(2)
    expect(page.locator(".run h2")).to_have_text(["reshape", "none"])
    left, right = (page.locator(".run").nth(at).bounding_box() for at in (0, 1))
    assert left is not None
    assert right is not None
    assert left["x"] + left["width"] <= right["x"]
    page.locator("#second").select_option("")
    expect(page.locator(".run")).to_have_count(1)


def test_a_log_is_replayed_with_its_speed(tmp_path: Path, served: Served, open_url: OpenPage) -> None:
    log = EventLog(str(tmp_path), "told-1")
    for kind, seconds, facts in a_run():
        log.write(kind, seconds, **facts)
    log.close()
    runs, server = served
    page = open_url(server.url(runs.add(ReplayedRun(log.path, speed=0.1))))
    expect(page.locator(".badge")).to_contain_text("replay")
    expect(page.get_by_text("The final result.")).to_have_count(0)
    page.get_by_role("combobox", name="Speed").select_option("50")
    expect(page.locator(".badge")).to_contain_text("done")
    expect(page.get_by_text("The final result.")).to_be_visible()
    assert bar(page, "a") == 70
    page.locator("[data-action=restart]").click()
    expect(page.locator(".badge")).to_contain_text("done")  # at fifty times its speed
    expect(page.locator(".kind[data-kind=flow]")).to_have_count(1)


def test_the_page_is_refused_without_the_token(served: Served, browser: Browser) -> None:
    runs, server = served
    runs.add(RecordedRun(a_run()))
    with browser.new_context() as context:
        page = context.new_page()
        answer = page.goto(server.address)
        assert answer is not None
        assert answer.status == 403
        assert page.locator(".run").count() == 0
        assert "query.url" in page.inner_text("body")


def test_the_timeline_goes_on_where_nothing_happens(served: Served, open_url: OpenPage) -> None:
    runs, server = served
    run = RecordedRun(a_run()[:5])
    page = open_url(server.url(runs.add(run)))
    end = page.locator(".timeline .strip text").last
    expect(end).not_to_have_text("7.0 s")
    tell(run.record, report_event(7.0, (50, 2, 3, 35), (20, 12, 12, 12)))
    expect(end).to_have_text("7.0 s")


def test_500_workers_are_a_map_with_a_table_beside(served: Served, open_url: OpenPage) -> None:
    waiting = [7] * 500
    waiting[123] = 90_000
    run = RecordedRun(
        [flow_event(500), report_event(1.0, waiting, [10] * 500), decision_event(1.1, "started", 123, (9,))]
    )
    runs, server = served
    page = open_url(server.url(runs.add(run)))
    expect(page.locator("canvas.heat")).to_be_visible()
    expect(page.locator(".pairs li[data-pair='123-9']")).to_be_visible()
    page.locator(".workers summary").click()
    rows = page.locator(".workers tbody tr")
    expect(rows).to_have_count(500)
    expect(rows.nth(123)).to_contain_text("skewed")
    expect(rows.nth(123)).to_contain_text("90,000")


def test_estimates_have_whiskers_and_words(served: Served, open_url: OpenPage) -> None:
    kind, seconds, facts = shown_event(0.1, [("a", 40), ("b", 10)])
    estimate = {"1": {"value": [80, None], "low": [60, None], "high": [100, None]}}
    guessed = (kind, seconds, {**facts, "estimates": estimate, "estimates_note": ""})
    runs, server = served
    page = open_url(server.url(runs.add(RecordedRun([flow_event(), guessed]))))
    first, second = (page.locator(".bars li").nth(at) for at in (0, 1))
    expect(first.locator(".whisker")).to_be_visible()
    expect(second.locator(".whisker")).to_be_hidden()
    expect(first.locator(".value")).to_have_attribute("title", "40, expected 80, between 60 and 100")
    whisker, track = (first.locator(name).bounding_box() for name in (".whisker", ".track"))
    assert whisker is not None
    assert track is not None
    assert (whisker["x"] - track["x"]) / track["width"] == pytest.approx(0.6, abs=0.02)
    assert whisker["width"] / track["width"] == pytest.approx(0.4, abs=0.02)
    page.locator(".result summary").click()
    expect(page.locator(".result table")).to_contain_text("60 to 100")


def test_a_line_chart_of_the_program_is_shown_with_its_gaps(served: Served, open_url: OpenPage) -> None:
    kind, seconds, facts = shown_event(0.1, [("a", 40), ("b", 10)])
    lines = [
        {"name": "a", "x": [1, 2, 5], "y": [1, 4, 9], "gaps": [2]},
        {"name": "b", "x": [1, 2, 3], "y": [2, 3, 5], "gaps": []},
    ]
    chart = {"kind": "line", "x": "k", "y": "n", "lines": lines}
    runs, server = served
    run = RecordedRun([flow_event(), (kind, seconds, {**facts, "chart": chart})])
    page = open_url(server.url(runs.add(run)))
    drawing = page.locator(".result .uplot")
    expect(drawing).to_have_attribute("aria-label", "n by k")
    expect(page.locator(".result .u-legend .u-label")).to_have_text(["a", "b"])
    expect(page.locator(".result .legend")).to_contain_text("points in between are not there yet (1 of 2 lines)")
    page.locator(".result select").nth(2).select_option("bars")
    expect(page.locator(".bars li")).to_have_count(2)
    tell(run.record, (kind, 0.2, {**facts, "chart": chart}))
    expect(page.locator(".bars li").first).to_be_visible()  # what somebody has chosen stays
    whole = {**chart, "lines": [{**line, "gaps": []} for line in lines]}
    tell(run.record, (kind, 0.3, {**facts, "chart": whole}))
    page.locator(".result select").nth(2).select_option("lines")
    expect(drawing).to_be_visible()
    expect(page.locator(".result .legend")).to_be_hidden()


def test_texts_of_users_are_no_markup(served: Served, open_url: OpenPage) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    runs, server = served
    page = open_url(server.url(runs.add(RecordedRun([flow_event(), shown_event(0.1, [(evil, 3)])], evil))))
    expect(page.locator("h2")).to_have_text(evil)
    expect(page.locator(".bars .name")).to_have_text(evil)
    assert page.locator(".run img, .run script").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_serious_for_an_accessibility_checker(
    scheme: str, width: int, served: Served, open_url: OpenPage
) -> None:
    runs, server = served
    number = runs.add(RecordedRun(a_run()[:9]))
    page = open_url(server.url(number), width, color_scheme=scheme)
    expect(page.locator(".entries button").first).to_be_visible()
    for summary in page.locator("summary").all():
        summary.click()
    page.locator(".entries button").first.click()
    expect(page.locator(".history canvas").first).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"


def test_a_server_that_is_gone_is_said(open_url: OpenPage) -> None:
    runs = Runs()
    server = PageServer(runs, 0)
    page = open_url(server.url(runs.add(RecordedRun(a_run()))))
    connection = page.locator("#connection")
    expect(connection).to_have_text("live")
    page.evaluate("window.addEventListener('error', () => {})")
    server.close()
    expect(connection).to_contain_text("not connected")
