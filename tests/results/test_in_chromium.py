"""The page in a real browser: Debian's chromium, driven by Playwright.

Both are optional. ``apt-get install chromium`` and ``pip install playwright`` bring them.
"""

import shutil

import pytest

from fairseq_normalign.alignment.aer import count
from fairseq_normalign.alignment.browser import system_of_links
from tests.results.made_up import EVIDENCES, NASTY, PAIRS, browser, html_of, views

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: it drives the browser"
)

expect = playwright.expect
# Waits for what is expected, as long as a page has to open. ``page.wait_for_function`` cannot: it
# uses eval, which the page's policy forbids.
expect.set_options(timeout=60_000)

pytestmark = pytest.mark.slow
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
NO_BREAK = "\u00a0"  # between a number and its unit
WIDE, PHONE = {"width": 1300, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: the page is opened in it")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of one model and of two, of a file of links, and one without alignments."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "one.html").write_text(html_of(browser("one.pt")), encoding="utf-8")
    (folder / "two.html").write_text(html_of(browser("one.pt", "two.pt")), encoding="utf-8")
    (folder / "none.html").write_text(html_of(), encoding="utf-8")
    (folder / "links").write_text("0-0 1-1\n\n\n\n\n")
    with_links = browser("one.pt")
    links = system_of_links(str(folder / "links"), "links", PAIRS, ("de", "en"), 5)
    with_links.systems.append(links)
    (folder / "links.html").write_text(html_of(with_links), encoding="utf-8")
    return folder


@pytest.fixture
def opened(chromium, pages):
    """A function that opens a page; whatever the console says is an error."""
    troubles, requests, contexts = [], [], []

    def open_page(name="one.html", *, script=None, viewport=WIDE, **options):
        context = chromium.new_context(viewport=viewport, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        if script:
            page.add_init_script(script)
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"file://{pages / name}")
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []
    assert all(url.startswith(("file://", "blob:")) for url in requests)


def choose_pair(page, number):
    page.locator(".pairs li").nth(number).click()
    page.wait_for_selector(f".pair h3:text-is('Pair {PAIRS[number].line}')")


def hover_cell(page, panel, row, column):
    """Moves the mouse to a cell of a heat map; returns what is told."""
    page.locator(".panel .map").nth(panel).wait_for()
    place = page.evaluate(
        """([panel, row, column]) => {
          const picture = document.querySelectorAll('.panel .map')[panel];
          picture.scrollIntoView({block: 'center'});
          const box = picture.getBoundingClientRect();
          const grid = picture.querySelector('.grid').getBBox();
          const size = Number(picture.querySelector('.cursor').getAttribute('width'));
          return [box.left + grid.x + (column + 0.5) * size, box.top + grid.y + (row + 0.5) * size];
        }""",
        [panel, row, column],
    )
    page.mouse.move(*place)
    return page.locator("#tip").text_content()


def told(pair, shares, links, row, column, levels=127):
    source = [*pair.source, "</s>"][column]
    share = 100 * round(levels * shares[row, column]) / levels
    parts = [f"“{pair.target[row]}” takes {share:.0f}{NO_BREAK}% from “{source}”"]
    if (column, row) in links:
        parts.append("linked")
    if (column, row) in pair.gold.sure:
        parts.append("gold: sure")
    elif (column, row) in pair.gold.possible:
        parts.append("gold: possible")
    return "; ".join(parts)


def test_words_that_look_like_html_are_shown_as_text(opened):
    page = opened()
    choose_pair(page, 1)
    words = page.locator(".words.source .word").all_text_contents()
    assert words == list(PAIRS[1].source)
    assert page.locator(".words.target .word").all_text_contents() == list(PAIRS[1].target)
    assert page.locator("h1").text_content() == f"A title {NASTY}"
    assert page.locator("main img").count() == 0
    assert page.evaluate("typeof window.hacked") == "undefined"


def test_the_policy_stops_scripts_that_are_added(chromium, pages):
    page = chromium.new_page()
    page.goto(f"file://{pages / 'one.html'}")
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'hacked=1'}))"
    )
    assert page.evaluate("typeof window.hacked") == "undefined"
    page.close()


def test_a_pair_that_is_chosen_has_its_scores(opened):
    page = opened()
    for number, (view, pair) in enumerate(zip(views(0), PAIRS, strict=True)):
        choose_pair(page, number)
        for panel, evidence in enumerate((0, 12)):
            links = set(view.links[evidence])
            counts = count(links, pair.gold)
            aer = "–" if counts.links + counts.sure == 0 else f"{100 * counts.aer:.1f}{NO_BREAK}%"
            text = page.locator(".panel .told").nth(panel).text_content()
            assert text.startswith(f"AER {aer}, ")
            assert text.endswith(", 1 link" if len(links) == 1 else f", {len(links)} links")


def test_the_cell_under_the_mouse_is_told_and_its_words_are_marked(opened):
    page = opened()
    choose_pair(page, 0)
    view = views(0)[0]
    for panel, evidence in ((0, 0), (1, 12)):
        for row, column in ((0, 0), (1, 1), (2, 3)):
            expected = told(PAIRS[0], view.shares[evidence], view.links[evidence], row, column)
            assert hover_cell(page, panel, row, column) == expected
    hover_cell(page, 0, 1, 2)
    assert page.locator(".word.on").all_text_contents() == [".", "house"]
    page.mouse.move(2, 2)
    assert page.locator("#tip").is_hidden()
    assert page.locator(".word.on").count() == 0


def test_menus_show_every_layer_head_method_and_step(opened):
    page = opened("two.html")
    choose_pair(page, 2)
    caption = page.locator(".panel.B figcaption")
    for system, evidence in ((0, 3), (1, 7), (1, 22), (0, 24), (1, 24), (0, 12)):
        place = EVIDENCES[evidence]
        layer = "all" if place.layer is None else str(place.layer + 1)
        wanted = {"system": ["one.pt", "two.pt"][system], "method": place.method, "layer": layer}
        wanted["head"] = "all" if place.head is None else str(place.head + 1)
        wanted["step"] = place.step
        for name, value in wanted.items():
            menu = page.locator(f"[data-menu='B-{name}'] select")
            if menu.locator("option:checked").text_content() != value:
                before = caption.text_content()
                menu.select_option(label=value)
                expect(caption).not_to_have_text(before)
        title = f"{['one', 'two'][system]}.pt: {place.method}, "
        title += "all layers" if place.layer is None else f"layer {layer}"
        title += f", head {place.head + 1}" if place.head is not None else ""
        assert caption.text_content() == f"B {title}, step {place.step}"
        view = views(system)[2]
        levels = 127 if place.head is None else 63
        for row, column in ((0, 1), (2, 0)):
            cell = (view.shares[evidence], view.links[evidence], row, column)
            expected = told(PAIRS[2], *cell, levels)
            assert hover_cell(page, 1, row, column) == expected


def test_search(opened):
    page = opened()
    found = {"HAUS": ["1"], "#5": ["5"], "<script": ["2"], "世界": ["4"], "nothing like it": []}
    for query, lines in {**found, "": ["1", "2", "4", "5"]}.items():
        page.fill("#search", query)
        page.wait_for_selector(f".finder .note:text-is('{len(lines)} of 4 pairs')")
        assert page.locator(".pairs .where").all_text_contents() == lines


def sorted_lines(page, name):
    page.locator(".sorting select").select_option(label=name)
    page.wait_for_selector(f".pairs[data-sorted='{name}']")
    return page.locator(".pairs .where").all_text_contents()


def test_sorting_by_length_error_and_disagreement(opened):
    page = opened()
    of_pairs = views(0)
    assert sorted_lines(page, "length")[0] == "2"
    aers = {}
    for pair, view in zip(PAIRS, of_pairs, strict=True):
        counts = count(set(view.links[0]), pair.gold)
        aers[str(pair.line)] = counts.aer if counts.links + counts.sure else -1
    shown = sorted_lines(page, "AER of A")
    assert [aers[line] for line in shown] == sorted(aers.values(), reverse=True)
    page.get_by_role("button", name="Reverse").click()
    page.wait_for_selector(".pairs[data-sorted='AER of A, reversed']")
    shown = page.locator(".pairs .where").all_text_contents()
    assert [aers[line] for line in shown[:-1]] == sorted(aers.values())[1:]
    assert aers[shown[-1]] == -1  # what has no error rate is last, whatever the order
    page.get_by_role("button", name="Reverse").click()
    apart = {}
    for pair, view in zip(PAIRS, of_pairs, strict=True):
        ours, theirs = set(view.links[0]), set(view.links[12])
        total = len(ours) + len(theirs)
        apart[str(pair.line)] = 1 - 2 * len(ours & theirs) / total if total else 0
    shown = sorted_lines(page, "disagreement")
    assert [apart[line] for line in shown] == sorted(apart.values(), reverse=True)


def test_the_keyboard_is_enough(opened):
    page = opened()
    page.keyboard.press("n")
    page.wait_for_selector(".pair h3:text-is('Pair 2')")
    page.keyboard.press("p")
    page.wait_for_selector(".pair h3:text-is('Pair 1')")
    page.locator(".pairs").focus()
    page.keyboard.press("End")
    page.wait_for_selector(".pair h3:text-is('Pair 5')")
    page.keyboard.press("Home")
    page.wait_for_selector(".pair h3:text-is('Pair 1')")
    page.keyboard.press("/")
    page.keyboard.type("haus")
    page.wait_for_selector(".finder .note:text-is('1 of 4 pairs')")
    page.locator(".panel .mapped").first.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    view = views(0)[0]
    expected = told(PAIRS[0], view.shares[0], view.links[0], 1, 1)
    assert page.locator("#tip").text_content() == expected
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_links_of_a_file_beside_a_model(opened):
    page = opened("links.html")
    panel = page.locator(".panel.B")
    assert panel.locator("figcaption").text_content() == "B links: links"
    # Both are in gold, which has one sure link: 1 - (1 + 2) / (2 + 1).
    assert (
        panel.locator(".told").text_content().startswith("AER 0.0\u00a0%, precision 100.0\u00a0%, ")
    )
    assert panel.locator("select").count() == 1
    assert hover_cell(page, 1, 1, 1) == "“house” and “haus”; linked; gold: possible"
    assert "</s>" not in panel.text_content()
    words = page.locator(".words.target .word")
    for place, linked in enumerate(("“ein”", "“haus”", "no word")):
        words.nth(place).hover()
        assert page.locator("#tip").text_content().endswith(f"; B: is linked with {linked}")
    page.locator("[data-menu='B-system'] select").select_option("one.pt")
    expect(panel.locator("select")).to_have_count(5)


def test_lines_follow_the_mouse_over_words(opened):
    page = opened()
    choose_pair(page, 0)
    page.get_by_label("side by side").uncheck()
    page.wait_for_selector(".panels:not(.two)")
    links = views(0)[0].links[0]
    missing = [link for link in PAIRS[0].gold.sure if link not in links]
    assert page.locator(".lines path").count() == len(links) + len(missing)
    page.locator(".words.target .word").nth(1).hover()
    shares = [round(127 * share) / 127 for share in views(0)[0].shares[0][1][:-1]]
    assert page.locator(".lines path").count() == sum(share > 0.02 for share in shares)
    assert page.locator(".word.on").all_text_contents() == ["house"]


def test_right_to_left_and_chinese(opened):
    page = opened()
    choose_pair(page, 2)
    assert page.locator(".words.source").get_attribute("dir") == "rtl"
    assert page.locator(".words.target").get_attribute("dir") == "ltr"
    first, second = (page.locator(".words.source .word").nth(place) for place in (0, 1))
    assert first.bounding_box()["x"] > second.bounding_box()["x"]
    first, second = (page.locator(".words.target .word").nth(place) for place in (0, 1))
    assert first.bounding_box()["x"] < second.bounding_box()["x"]
    labels = page.locator(".panel.A .map text.label").all_text_contents()
    assert "世界世界" in labels  # its title, then itself


def test_maps_of_heads_and_curves_tell_their_numbers(opened):
    page = opened("none.html")
    figure = page.locator("figure", has=page.locator("figcaption:text-is('confidence')"))
    figure.locator(".mapped").focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#tip").text_content() == ("confidence: layer 1, head 1: 0.250; +1 (95 %)")
    page.keyboard.press("ArrowDown")
    assert page.locator("#tip").text_content() == "confidence: layer 2, head 1: –; removed"
    figure.locator("summary").click()
    figure.locator("tbody tr").first.wait_for()
    table = figure.locator("tbody tr").first.locator("td").all_text_contents()
    assert table == ["1", "0.250 P", "0.750"]
    chart = page.locator(".charted").first
    chart.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").text_content() == (
        "norms, input: decoder layer 1: 30 (28 to 32); chosen without gold"
    )
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_tables_are_sorted_by_a_click(opened):
    page = opened("none.html")
    table = page.locator(".tabular", has=page.locator("h3:text-is('Scores and roles')"))
    table.get_by_role("button", name="confidence").click()
    cells = table.locator("tbody tr td:nth-child(2)").all_text_contents()
    assert cells == ["0.125", "0.250", "0.500", "0.750"]
    table.get_by_role("button", name="confidence").click()
    assert table.locator("tbody tr td:nth-child(2)").first.text_content() == "0.750"


def test_a_browser_that_cannot_unpack_says_so(opened):
    page = opened(script="delete window.DecompressionStream")
    text = page.locator("section", has=page.locator("#browser")).text_content()
    assert "expected one with DecompressionStream" in text
    assert page.locator("#alignments").count() == 1  # the rest is there
