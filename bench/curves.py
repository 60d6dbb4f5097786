"""Lines on two logarithmic axes as an SVG file: what the pictures of bench/scaling.py are drawn with."""

import math

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 40, 50  # room around the axes
COLOURS = ["#1b6ca8", "#c8553d", "#588b3f", "#7a5195", "#555555"]


def words(number):
    """1500000 -> 1.5M"""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


class Axis:
    """Powers of ten from below the least number to above the largest, laid on [begin, end] of the picture."""

    def __init__(self, numbers, begin, end):
        self.low, self.high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
        self.high = max(self.high, self.low + 1)
        self.begin, self.end = begin, end

    def place(self, number):
        share = (math.log10(number) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self):
        return [10.0**power for power in range(self.low, self.high + 1)]


def text(x, y, what, anchor="middle", colour="#333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{what}</text>'


def grid(x_axis, y_axis):
    parts = []
    for tick in x_axis.ticks():
        x = x_axis.place(tick)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(text(x, HEIGHT - BOTTOM + 18, words(tick)))
    for tick in y_axis.ticks():
        y = y_axis.place(tick)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(text(LEFT - 8, y + 4, words(tick), "end"))
    return parts


def draw(file, title, x_name, y_name, lines):
    """lines: {name: [(x, y)]}; a line ends where its numbers do. Names stand at the ends of their lines."""
    points = [point for line in lines.values() for point in line]
    x_axis = Axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    y_axis = Axis([y for _, y in points], HEIGHT - BOTTOM, TOP)
    parts = [text((LEFT + WIDTH - RIGHT) / 2, 22, title), *grid(x_axis, y_axis)]
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_name))
    parts.append(text(LEFT, TOP - 8, y_name))
    ends = []  # of names, so that none covers another
    for colour, (name, line) in zip(COLOURS, lines.items()):
        at = [(x_axis.place(x), y_axis.place(y)) for x, y in sorted(line)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
        x, y = at[-1]
        while any(abs(y - other) < 14 for other in ends):
            y += 14
        ends.append(y)
        parts.append(text(x + 8, y + 4, name, "start", colour))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">'
    file.write_text("\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *parts, "</svg>\n"]))
