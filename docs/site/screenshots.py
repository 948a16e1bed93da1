"""Pictures of ten pages, to be looked at after a change of the theme."""

from pathlib import Path

from .browser import Browser, program

# File -> page.
PAGES = {
    "start": "index.html",
    "guide": "guide.html",
    "picture": "packing.html",
    "wide-table": "which-loader.html",
    "plots": "benchmarks.html",
    "notebook": "notebooks/02_determinism_and_resume.html",
    "reference": "reference/samplers.html",
    "format": "formats/tar.html",
    "command": "commands/inspect.html",
    "search": "search.html?q=resume",
}
# Width in pixels -> dark: a telephone and a screen.
WINDOWS = {400: True, 1400: False}
HEIGHT = 1800


def write(site: Path) -> int:
    """Writes them into the folder beside the site's; returns the exit status."""
    if not (site / "index.html").exists():
        print(f"python -m docs: {site} has no site: python -m docs build makes it")
        return 2
    path = program()
    if path is None:
        print("python -m docs: needs Chromium, Debian's package chromium")
        return 2
    to = site.with_name(f"{site.name}-screenshots")
    to.mkdir(parents=True, exist_ok=True)
    with Browser(path) as browser:
        for name, page in PAGES.items():
            for width, dark in WINDOWS.items():
                browser.show_as(width, HEIGHT, dark=dark)
                browser.open(f"{site.resolve().as_uri()}/{page}")
                (to / f"{name}-{width}.png").write_bytes(browser.picture())
    print(to)
    return 0
