#!/usr/bin/env python3
"""Draws what a terminal shows: text with ANSI colours on stdin, SVG on stdout. The same text gives the same picture.

    export PATH=$PWD/target/release:$PATH
    CLICOLOR_FORCE=1 COLUMNS=104 touchstone demo | python3 docs/images/terminal_svg.py > docs/images/demo.svg
"""

import re
import sys
import unicodedata
from html import escape

CELL, LINE, MARGIN = 7.8, 17, 16
COLOURS = {
    31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 36: "#79c0ff", 2: "#8b949e",
    9: "#ff7b72", 10: "#7ee787", 11: "#e3b341",
}
CODE = re.compile("\x1b\\[([0-9;]*)m")


def runs(line):
    """The parts of a line that look the same: column, text, colour, whether bold."""
    column, colour, bold, at = 0, None, False, 0
    for code in [*CODE.finditer(line), None]:
        text = line[at : code.start() if code else len(line)]
        if text.strip():
            yield column + len(text) - len(text.lstrip()), text.strip(), colour, bold
        column += sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
        if not code:
            return
        at = code.end()
        numbers = [int(n) for n in code[1].split(";") if n] or [0]
        if numbers[:2] == [38, 5]:
            colour = COLOURS.get(numbers[2], colour)
        elif 0 in numbers:
            colour, bold = None, False
        elif 39 in numbers:
            colour = None
        elif 1 in numbers:
            bold = True
        else:
            colour = COLOURS.get(numbers[0], colour)


lines = sys.stdin.read().rstrip("\n").split("\n")
width = max(len(CODE.sub("", line)) for line in lines)
size = f'width="{width * CELL + 2 * MARGIN:.0f}" height="{len(lines) * LINE + 2 * MARGIN}"'
print(f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="Output of touchstone demo">')
print('<rect width="100%" height="100%" rx="8" fill="#0d1117"/>')
print('<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#e6edf3">')
for row, line in enumerate(lines):
    for column, text, colour, bold in runs(line):
        look = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if bold else "")
        # The length is given so that columns stay columns in whatever font there is.
        place = f'x="{MARGIN + column * CELL:.1f}" y="{MARGIN + row * LINE + 12}" textLength="{len(text) * CELL:.1f}"'
        print(f'<text {place} xml:space="preserve"{look}>{escape(text)}</text>')
print("</g>\n</svg>")
