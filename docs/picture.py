"""Draws docs/gradient.svg: what happens to one gradient in two dimensions, by the library's own functions."""

import sys
from pathlib import Path

import torch

from evigrad.calibration import opinion, update

MEANS = {"unimodal": (-1.7, 1.0), "joint": (0.9, 1.5)}
SPREADS = {"unimodal": (0.12, 0.75), "joint": (0.75, 0.12)}
COLOURS = {"unimodal": "#c98a00", "joint": "#1f6fb2", "sum": "#8a8a8a", "calibrated": "#1b7f3b"}
UNIT = 92


def calibrated() -> tuple[list[float], list[float]]:
    """The plain sum, and the calibrated update with the same length."""
    mean = {name: torch.tensor([value]) for name, value in MEANS.items()}
    sure = {name: opinion(torch.tensor([value]).square()) for name, value in SPREADS.items()}
    plain = mean["unimodal"] + mean["joint"]
    result = update(mean["unimodal"], mean["joint"], sure["unimodal"], sure["joint"]).gradient
    return plain[0].tolist(), (result * plain.norm() / result.norm())[0].tolist()


def arrow(name: str, tip: tuple[float, ...] | list[float], label: str, dx: float, dy: float, dash: str = "") -> str:
    """An arrow from the origin with its label at an offset from the tip."""
    x, y = tip[0] * UNIT, -tip[1] * UNIT
    colour = COLOURS[name]
    return (
        f'<line x1="0" y1="0" x2="{x:.1f}" y2="{y:.1f}" stroke="{colour}" stroke-width="3.5"{dash} '
        f'marker-end="url(#{name})"/>\n'
        f'<text x="{x + dx:.1f}" y="{y + dy:.1f}" fill="{colour}">{label}</text>'
    )


def draw() -> str:
    """The picture as SVG text."""
    plain, final = calibrated()
    heads = "".join(
        f'<marker id="{name}" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="5" markerHeight="5" orient="auto">'
        f'<path d="M0 0 10 5 0 10z" fill="{colour}"/></marker>'
        for name, colour in COLOURS.items()
    )
    clouds = "\n".join(
        f'<ellipse cx="{MEANS[name][0] * UNIT:.1f}" cy="{-MEANS[name][1] * UNIT:.1f}" '
        f'rx="{SPREADS[name][0] * UNIT:.1f}" ry="{SPREADS[name][1] * UNIT:.1f}" '
        f'fill="{COLOURS[name]}" fill-opacity="0.16"/>'
        for name in MEANS
    )
    arrows = "\n".join(
        [
            arrow("unimodal", MEANS["unimodal"], "unimodal gradient, sure of x", -150, 118),
            arrow("joint", MEANS["joint"], "joint gradient, sure of y", 14, 42),
            arrow("sum", plain, "plain sum", -26, -14, ' stroke-dasharray="7 5"'),
            arrow("calibrated", final, "calibrated", -64, -14),
        ]
    )
    note = "Shaded: one standard deviation of each gradient."
    box = 'viewBox="-330 -290 660 350" font-family="sans-serif" font-size="15"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {box}>
<title>A unimodal gradient that is certain in x and a joint gradient that is certain in y, their sum, and the
calibrated update, which follows each source where that source is certain</title>
<rect x="-330" y="-290" width="660" height="350" fill="#ffffff"/>
<defs>{heads}</defs>
<line x1="-310" y1="0" x2="310" y2="0" stroke="#cccccc"/><line x1="0" y1="30" x2="0" y2="-275" stroke="#cccccc"/>
<text x="300" y="18" fill="#999999">x</text><text x="8" y="-266" fill="#999999">y</text>
{clouds}
{arrows}
<text x="-310" y="50" fill="#555555" font-size="13">{note}</text>
</svg>
"""


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("gradient.svg")).write_text(draw())
