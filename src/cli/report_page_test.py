"""The pages of `evermoe forecast --report` and `evermoe plan --report` in a real browser, on a wide and a narrow screen.

Every plot is drawn and has units on its axes, nothing is fetched, nothing is wider than what it stands in, and nothing covers
anything else.

report_page_test.py EVERMOE CHROMIUM SOURCES
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

EVERMOE, CHROMIUM, SOURCES = sys.argv[1:4]
CLUSTER = str(pathlib.Path(SOURCES) / "examples" / "clusters" / "a100-12x8.toml")
WIDTHS = (1200, 500)  # of the window: a desktop's and a phone's

# Measures the page as it is shown. (The page's own policy allows inline scripts, so this one runs like its own.)
PROBE = """<script>
(function () {
  const body = document.body, found = {coloured: [], wide: [], covered: [], untitled: []};
  const name = function (e) { return e.tagName + "." + e.className + " " + e.textContent.slice(0, 40); };
  document.querySelectorAll("canvas").forEach(function (canvas) {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let coloured = 0;  // neither empty nor grey
    for (let p = 0; p < pixels.length; p += 4) {
      const most = Math.max(pixels[p], pixels[p + 1], pixels[p + 2]), least = Math.min(pixels[p], pixels[p + 1], pixels[p + 2]);
      if (pixels[p + 3] > 0 && most - least > 60) ++coloured;
    }
    found.coloured.push(coloured);
    Object.values(Chart.getChart(canvas).options.scales).forEach(function (scale) {
      if (!scale.title.display || !scale.title.text) found.untitled.push(canvas.id);
    });
  });
  const edge = document.documentElement.clientWidth;
  document.querySelectorAll("html, main, header, h1, h2, p, section, table, th, td, td > div, li, canvas, .tile, .strip, .track, .ticks").forEach(function (e) {
    if (e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1) found.wide.push(name(e));
    if (e.getBoundingClientRect().right > edge + 1) found.wide.push(name(e));
  });
  // Neighbours in one parent do not cover each other.
  document.querySelectorAll("main, section, thead tr, .tiles, .ticks").forEach(function (parent) {
    const children = Array.from(parent.children).filter(function (e) { return e.getClientRects().length > 0; });
    for (let i = 1; i < children.length; ++i) {
      const a = children[i - 1].getBoundingClientRect(), b = children[i].getBoundingClientRect();
      if (b.left < a.right - 1 && b.top < a.bottom - 1) found.covered.push(name(children[i]));
    }
  });
  found.fetched = performance.getEntriesByType("resource").length;
  found.charts = Number(body.dataset.charts || 0);
  found.width = edge;
  body.setAttribute("data-found", JSON.stringify(found));
})();
</script>"""


def page_of(folder, *arguments):
    page = pathlib.Path(folder) / "report.html"
    subprocess.run([EVERMOE, *arguments, "--runs", "2", "--report", str(page)], check=True, stdout=subprocess.DEVNULL)
    return page.read_text()


def shown(folder, html, width):
    """What the probe found, and what the browser complained about."""
    page = pathlib.Path(folder) / "shown.html"
    page.write_text(html.replace("</body>", PROBE + "</body>"))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}/browser",
               f"--window-size={width},1600", "--enable-logging=stderr", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    found = re.search(r'data-found="([^"]*)"', done.stdout).group(1)
    return json.loads(found.replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")), complaints


class ReportPage(unittest.TestCase):
    def check(self, plots, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            html = page_of(folder, *arguments)
            for width in WIDTHS:
                found, complaints = shown(folder, html, width)
                with self.subTest(width=width):
                    self.assertEqual(complaints, [])
                    self.assertEqual(found["width"], width)
                    self.assertEqual((found["charts"], len(found["coloured"])), (plots, plots))
                    self.assertEqual(found["fetched"], 0)
                    self.assertEqual(found["wide"], [])
                    self.assertEqual(found["covered"], [])
                    self.assertEqual(found["untitled"], [])
                    for plot, coloured in enumerate(found["coloured"]):
                        self.assertGreater(coloured, 200, plot)
        return html

    def test_one_forecast(self):
        # Rare failures: waiting for nodes, which is drawn in grey, would dwarf all that has a colour.
        html = self.check(1, "forecast", "gpt-moe-7.3b", CLUSTER, "--set", "failures.node_mtbf_hours=4000")
        for part in ("Where the time goes", "One run, as it may go", "What one interruption costs", "waiting for nodes", "What was assumed"):
            self.assertIn(part, html)
        self.assertNotIn("<pre", html)

    def test_a_sweep(self):
        self.check(2, "forecast", "gpt-moe-7.3b", CLUSTER, "--sweep", "failures.node_mtbf_hours=100,1000,4000", "--sweep", "cluster.spares=0,1")

    def test_strategies_compared(self):
        self.check(2, "forecast", "gpt-moe-7.3b", CLUSTER, "--set", "failures.node_mtbf_hours=200", "--sweep", "protection.strategy=sparse,dense,none")

    def test_every_scale(self):
        self.check(4, "forecast", "gpt-moe-7.3b", CLUSTER, "--scale", "64,1024,16384")

    def test_a_plan(self):
        self.check(1, "plan", "gpt-moe-7.3b", CLUSTER)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
