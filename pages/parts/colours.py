"""Colours: one ordinal scale and one diverging scale, each for light and dark, with the ink that reads on them.

The scales move in lightness alone as much as in hue (OKLab), so that they keep their order for colour-blind
readers and in print. Text on a colour is black or white, whichever has the higher WCAG 2 contrast.
"""

from dataclasses import dataclass
from math import cos, radians, sin

Lch = tuple[float, float, float]  # lightness 0 to 1, chroma, hue in degrees

INKS = ("#000000", "#ffffff")
ORDINAL: dict[str, tuple[Lch, Lch]] = {
    "light": ((0.962, 0.035, 100), (0.66, 0.125, 245)),
    "dark": ((0.30, 0.035, 100), (0.66, 0.125, 245)),
}
DIVERGING: dict[str, tuple[Lch, Lch, Lch]] = {
    "light": ((0.70, 0.13, 55), (0.95, 0.005, 100), (0.66, 0.125, 245)),
    "dark": ((0.62, 0.12, 55), (0.32, 0.005, 100), (0.66, 0.125, 245)),
}
CATEGORICAL = {
    "light": ["#0072b2", "#c2570c", "#00795a", "#a3478a", "#6b6257"],
    "dark": ["#5aaeea", "#f0a35e", "#3fc49a", "#e290c6", "#b8b0a4"],
}
THEMES = ("light", "dark")


@dataclass(frozen=True)
class Paint:
    """A fill and the ink that reads on it, in the light and in the dark theme, as #rrggbb."""

    light: str
    dark: str

    @property
    def ink_light(self) -> str:
        return ink(self.light)

    @property
    def ink_dark(self) -> str:
        return ink(self.dark)


def ordinal(steps: int) -> list[Paint]:
    """`steps` paints from low (near the page) to high (far from it)."""
    return _paints(steps, ORDINAL)


def diverging(steps: int) -> list[Paint]:
    """`steps` paints from negative over neutral in the middle to positive."""
    return _paints(steps, DIVERGING)


def ink(fill: str) -> str:
    """Black or white, whichever contrasts more with `fill`."""
    return max(INKS, key=lambda colour: contrast(colour, fill))


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio of two colours, 1 to 21."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _paints(steps: int, scale: dict[str, tuple[Lch, ...]]) -> list[Paint]:
    places = [step / max(1, steps - 1) for step in range(steps)]
    return [Paint(*(_at(scale[theme], place) for theme in THEMES)) for place in places]


def _at(stops: tuple[Lch, ...], place: float) -> str:
    """The colour at `place` 0 to 1 of a scale through `stops`, straight in OKLab between neighbours."""
    labs = [(l, c * cos(radians(h)), c * sin(radians(h))) for l, c, h in stops]
    segment = min(int(place * (len(labs) - 1)), len(labs) - 2)
    share = place * (len(labs) - 1) - segment
    return _hex(*(a + (b - a) * share for a, b in zip(labs[segment], labs[segment + 1])))


def _hex(lightness: float, a: float, b: float) -> str:
    """OKLab to sRGB, Björn Ottosson's matrices (bottosson.github.io/posts/oklab)."""
    l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
    )
    return "#" + "".join(f"{round(255 * _encode(min(1.0, max(0.0, part)))):02x}" for part in linear)


def _encode(part: float) -> float:
    return 12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055


def _decode(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def _luminance(colour: str) -> float:
    red, green, blue = (_decode(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
