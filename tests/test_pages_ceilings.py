"""Labels of ceilings, bars and axes: none twice, none where a curve runs."""

from __future__ import annotations

from evidence.pages import ceilings, drawing
from evidence.pages.drawing import Curve, Dot, Drawing


def test_a_line_is_looked_at_every_few_pixels():
    found = sorted(ceilings.along([(0.0, 0.0), (12.0, 6.0)]))
    assert found == [(0, 0), (4, 2), (8, 4), (12, 6)]


def test_a_label_stands_above_and_left_where_nothing_is():
    assert ceilings.place(100, (20, 300), 80, []) == (20, 104)


def test_a_label_goes_where_no_curve_is():
    left_above = [(50.0, 108.0)]
    assert ceilings.place(100, (20, 300), 80, left_above) == (220, 104)
    all_above = [(50.0, 108.0), (250.0, 108.0), (160.0, 108.0)]
    assert ceilings.place(100, (20, 300), 80, all_above) == (20, 89)


def test_where_curves_are_everywhere_the_fewest_are_crossed():
    places = [(x, y) for x in (50.0, 160.0, 250.0) for y in (92.0, 108.0)]
    assert ceilings.place(100, (20, 300), 80, [*places, *places[:5]]) == (220, 104)


def dot(x: float, y: float, at: str) -> Dot:
    return Dot(x, y, y, y, at, f"{y:g} ms")


def made(*curves: Curve, log: tuple[str, ...] = (), kind: str = "line") -> Drawing:
    return Drawing(kind=kind, x="n", y="time (ms)", log=log, curves=curves, roofs=(), width=640)


def test_a_bar_with_its_name_above_it_has_its_number_alone_behind_it():
    one = Curve("plain", (dot(0, 2.0, "plain"),))
    other = Curve("padded", (dot(0, 1.0, "padded"),))
    text = drawing.draw(made(one, other, kind="bar"))
    assert text.count(">plain<") == 1
    assert ">2 ms<" in text
    assert "plain 2 ms" not in text


def test_bars_of_one_group_are_told_apart():
    one = Curve("old", (dot(0, 2.0, "256"),))
    other = Curve("new", (dot(0, 1.0, "256"),))
    assert ">old 2 ms<" in drawing.draw(made(one, other, kind="bar"))


def test_many_dots_on_a_log_axis_are_counted_in_doublings():
    places = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64]
    curve = Curve("measured", tuple(dot(x, 1.0 + x, str(x)) for x in places))
    text = drawing.draw(made(curve, log=("x",)))
    shown = [x for x in places if f">{x}<" in text]
    assert [x for x in (1, 2, 4, 8, 16, 32, 64) if x in shown] == [1, 2, 4, 8, 16, 32, 64]
    assert not {3, 6, 12, 24} & set(shown)
