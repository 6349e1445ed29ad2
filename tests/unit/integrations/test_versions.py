"""An engine that is missing, or of an untested version, is named in one sentence with the command that helps."""

import importlib
import sys

import pytest

import rovrl
from rovrl.integrations import environment, skyrl

ENGINES = {"skyrl": skyrl.register, "trinity-rft": lambda: importlib.import_module("rovrl.integrations.trinity")}


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.delitem(sys.modules, "rovrl.integrations.trinity", raising=False)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_is_missing_is_named_with_the_way_to_get_it(engine, monkeypatch):
    def missing(package):
        raise environment.PackageNotFoundError(package)

    monkeypatch.setattr(environment, "version", missing)
    with pytest.raises(
        rovrl.RovrlError, match=f"^{engine} is not installed in this environment: pip install '{engine}>=0"
    ):
        ENGINES[engine]()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("installed", ["0.2.9", "1.0"])
def test_a_version_that_was_not_tested_is_refused_with_the_one_that_was(engine, installed, monkeypatch):
    monkeypatch.setattr(environment, "version", lambda _: installed)
    with pytest.raises(
        rovrl.RovrlError, match=rf"^{engine} {installed} is installed, .* pip install '{engine}>=0\.\d,<0\.\d'$"
    ):
        ENGINES[engine]()


@pytest.mark.parametrize(("installed", "fine"), [("4.5.9", False), ("4.6.0", True), ("4.6.9", True), ("4.7.0", False)])
def test_the_range_has_its_first_version_and_not_the_one_beyond(installed, fine, monkeypatch):
    monkeypatch.setattr(environment, "version", lambda _: installed)
    if fine:
        assert environment.check_engine("some-engine", ("4.6", "4.7")) == installed
        return
    with pytest.raises(rovrl.RovrlError, match=r"pip install 'some-engine>=4\.6,<4\.7' another$"):
        environment.check_engine("some-engine", ("4.6", "4.7"), "another")


@pytest.mark.parametrize("engine", ENGINES)
def test_settings_that_are_wrong_are_refused_when_the_engine_takes_us_in(engine, monkeypatch):
    monkeypatch.setattr(environment, "version", lambda package: {"skyrl": "0.3.0", "trinity-rft": "0.6.0"}[package])
    monkeypatch.setenv("ROVRL_REWARD_CHANNEL", '{"blocks": 3}')
    with pytest.raises(rovrl.RovrlError, match="RewardChannel has no field blocks"):
        ENGINES[engine]()
