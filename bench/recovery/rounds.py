"""What the rounds of a benchmark gave: a line of each on stderr while it runs, and in the end how far they spread."""
import statistics
import sys


def tell(text):
    print(text, file=sys.stderr, flush=True)


def spread(values, digits=4):
    return {"median": round(statistics.median(values), digits), "min": round(min(values), digits),
            "max": round(max(values), digits)}
