"""Opens a page in headless Chromium, offline, and gives back its document and what the console said."""

import functools
import re
import shutil
import subprocess

import pytest

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]


@functools.cache
def find():
    """A browser that runs here (on Ubuntu, chromium-browser may be a stand-in that does not), or None."""
    for name in NAMES:
        path = shutil.which(name)
        if path and subprocess.run([path, "--version"], capture_output=True, timeout=60).returncode == 0:
            return path
    return None


def run(page, *options, profile):
    browser = find()
    if not browser:
        pytest.skip(f"no Chromium on PATH ({', '.join(NAMES)}); on Debian: apt-get install chromium")
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
               "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}", "--window-size=1180,2400",
               "--enable-logging=stderr", "--v=0", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def opened(page, profile, script=""):
    """(document, console lines) after loading the page and then running `script` in it."""
    if script:
        copy = page.with_name(page.stem + "-scripted.html")
        copy.write_text(page.read_text().replace("</body>", f"<script>{script}</script></body>"))
        page = copy
    done = run(page, "--dump-dom", profile=profile)
    assert done.returncode == 0, done.stderr
    assert "</html>" in done.stdout, done.stderr
    return done.stdout, re.findall(r"^\[.*CONSOLE.*$", done.stderr, re.MULTILINE)
