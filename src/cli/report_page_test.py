"""The page of `evermoe forecast --report` in a real browser: every plot is drawn, nothing is fetched.

report_page_test.py EVERMOE CHROMIUM SOURCES
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

EVERMOE, CHROMIUM, SOURCES = sys.argv[1:4]
CLUSTER = str(pathlib.Path(SOURCES) / "examples" / "clusters" / "a100-12x8.toml")

# Counts the pixels of each plot that are neither empty nor grey, and what the page asked the network for. (The page's own
# policy allows inline scripts, so this one runs like its own.)
PROBE = """<script>
document.querySelectorAll("canvas").forEach(function (canvas, i) {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let coloured = 0;
  for (let p = 0; p < pixels.length; p += 4) {
    const most = Math.max(pixels[p], pixels[p + 1], pixels[p + 2]), least = Math.min(pixels[p], pixels[p + 1], pixels[p + 2]);
    if (pixels[p + 3] > 0 && most - least > 60) ++coloured;
  }
  document.body.setAttribute("data-coloured" + i, coloured);
});
document.body.dataset.fetched = performance.getEntriesByType("resource").length;
</script>"""


def report(folder, *arguments):
    page = pathlib.Path(folder) / "report.html"
    subprocess.run([EVERMOE, "forecast", "gpt-moe-7.3b", CLUSTER, "--runs", "2", "--report", str(page), *arguments], check=True, stdout=subprocess.DEVNULL)
    return page.read_text()


def attributes(folder, html):
    """The body's attributes after the page has been shown."""
    page = pathlib.Path(folder) / "shown.html"
    page.write_text(html.replace("</body>", PROBE + "</body>"))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}/browser",
               "--enable-logging=stderr", "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    complaints = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
    body = re.search(r"<body([^>]*)>", shown.stdout).group(1)
    return dict(re.findall(r'data-(\w+)="(\d+)"', body)), complaints


class ReportPage(unittest.TestCase):
    def check(self, plots, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            found, complaints = attributes(folder, report(folder, *arguments))
        self.assertEqual(complaints, [])
        self.assertEqual(found["charts"], str(plots))
        self.assertEqual(found["fetched"], "0")
        for plot in range(plots):
            self.assertGreater(int(found[f"coloured{plot}"]), 500, plot)

    def test_one_forecast(self):
        self.check(1)

    def test_a_sweep(self):
        self.check(2, "--sweep", "failures.node_mtbf_hours=100,1000,4000", "--sweep", "cluster.spares=0,1")

    def test_every_scale(self):
        self.check(3, "--scale", "64,1024,16384")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
