"""The picture of one bad reward: what its four panels say is so."""

import pytest

from rovrl_paper import demo


@pytest.fixture(scope="module")
def scenes():
    return demo.scenes()


def test_each_step_keeps_more_of_the_others_contrast(scenes):
    grpo, paper, adaptive, guarded = (scene.kept for scene in scenes.values())
    assert grpo < 0.05
    assert 0.3 < paper < adaptive < guarded
    assert guarded == pytest.approx(1, abs=0.05)


def test_only_the_guarded_settings_leave_the_broken_response_out_and_no_clean_one(scenes):
    left_out = [title for title, scene in scenes.items() if scene.broken[-1] == 0]
    assert left_out == ["RoVR-GSPO, guarded (beyond the paper)"]
    for scene in scenes.values():
        assert (scene.clean != 0).all()
        assert (scene.broken[:-1] != 0).all()


def test_the_terminal_shows_every_panel_with_its_number(scenes):
    text = demo.terminal()
    for title, scene in scenes.items():
        assert f"{title}\n" in text
        assert f"{scene.kept:.0%} of the others' contrast is left" in text


def test_the_picture_is_written_where_it_is_wanted(tmp_path):
    demo.picture(tmp_path / "new" / "demo.svg")
    assert (tmp_path / "new" / "demo.svg").read_text().count("beyond the paper") >= 2
