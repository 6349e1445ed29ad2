"""What a user sees when something is missing or wrong: sentences."""

import pytest

from rovrl.errors import RovrlError, require


def test_a_missing_optional_package_is_a_sentence_with_the_way_to_get_it():
    with pytest.raises(RovrlError, match="no_such_package_of_ours") as error:
        require("no_such_package_of_ours.part", extra="report")
    assert "pip install 'rovrl[report]'" in str(error.value)
    assert error.value.__suppress_context__


def test_a_present_package_is_returned():
    import json

    assert require("json", extra="report") is json
    assert require("json.decoder", extra="report") is json.decoder


def test_a_package_that_fails_inside_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "breaks_inside.py").write_text("import a_dependency_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_dependency_that_is_not_there"):
        require("breaks_inside", extra="report")
