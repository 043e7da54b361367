"""Settings: what is allowed is said when something else is given; variables are read once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npaccel
from npaccel.config import SETTINGS, Config
from npaccel.errors import ConfigError


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("NPACCEL_BACKEND", "metal", "'auto', 'c', 'cuda', 'llvm', 'numpy'"),
        ("NPACCEL_BACKEND", "", "'auto', 'c', 'cuda', 'llvm', 'numpy'"),
        ("NPACCEL_CHECK", "yes", "'off', 'compute'"),
        ("NPACCEL_GUARD", "1", "'on', 'off'"),
        ("NPACCEL_THRESHOLD", "-1", "an integer of at least 0"),
        ("NPACCEL_THRESHOLD", "1e6", "an integer of at least 0"),
        ("NPACCEL_NUM_THREADS", "two", "an integer from 0 to 256"),
        ("NPACCEL_QUEUE_LIMIT", "0", "an integer from 1 to 2147483647"),
        ("NPACCEL_CACHE", "maybe", "'on', 'off'"),
        ("NPACCEL_CACHE_DIR", "here", "an absolute path"),
        ("NPACCEL_CACHE_LIMIT", "0", "an integer of at least 65536"),
        ("NPACCEL_CHECK_ACTION", "tell", "'raise', 'warn'"),
        ("NPACCEL_CHECK_EVERY", "0", "an integer from 1 to 2147483647"),
        ("NPACCEL_CHECK_SCALE", "-1e-9", "a number of at least 0"),
        ("NPACCEL_CHECK_SCALE", "inf", "a number of at least 0"),
        ("NPACCEL_CHECK_SCALE", "nan", "a number of at least 0"),
        ("NPACCEL_CHECK_SCALE", "much", "a number of at least 0"),
    ],
)
def test_variables_that_are_not_allowed(variable: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config({variable: value})
    assert variable in str(error.value) and repr(value) in str(error.value)
    assert allowed in str(error.value)


def test_unknown_names_list_what_is_known() -> None:
    with pytest.raises(ConfigError, match=r"'speed'; it has accuracy, backend, boundscheck"):
        npaccel.config.speed = 9
    with pytest.raises(AttributeError, match=r"'speed'; it has accuracy, backend, boundscheck"):
        _ = npaccel.config.speed


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("NPACCEL_THREADS", "NPACCEL_NUM_THREADS"),
        ("NPACCEL_BACKENDS", "NPACCEL_BACKEND"),
        ("NPACCEL_tiering", "NPACCEL_TIERING"),
        ("NPACCEL_X", "NPACCEL_"),
    ],
)
def test_an_unknown_variable_is_told_with_the_nearest_name(variable: str, nearest: str) -> None:
    config = Config({variable: "2", "NPACCEL_THRESHOLD": "12"})
    (text,) = config.unknown
    assert text.startswith(f"unknown environment variable {variable}; did you mean {nearest}")
    assert config.threshold == 12
    assert Config({"NPACCEL_THRESHOLD": "12", "OTHER": "x"}).unknown == []


@pytest.mark.parametrize("setting", [s for s in SETTINGS if not (s.choices or s.folder or s.real)])
def test_integers_have_a_largest_value(setting) -> None:
    """Whatever is allowed can be set; beyond it the text says what is."""
    most = setting.maximum
    for wrong in (most + 1, 10**30):
        with pytest.raises(ConfigError, match=f"{wrong} is not allowed; .* to {most}$"):
            setattr(npaccel.config, setting.name, wrong)
    before = getattr(npaccel.config, setting.name)
    setattr(npaccel.config, setting.name, most)
    try:
        assert getattr(npaccel.config, setting.name) == most
        if setting.name == "threads":
            assert npaccel._native.threads() == most
        assert (npaccel.asarray(np.arange(1000.0)) + 1)[3] == 4
    finally:
        setattr(npaccel.config, setting.name, before)


@pytest.mark.parametrize(
    ("name", "value"), [("backend", "gpu"), ("threads", 1.5), ("threads", None), ("guard", True)]
)
def test_assignment_is_checked_and_changes_nothing(name: str, value: object) -> None:
    before = getattr(npaccel.config, name)
    with pytest.raises(ConfigError, match=f"npaccel.config.{name}: .* not allowed; it must be"):
        setattr(npaccel.config, name, value)
    assert getattr(npaccel.config, name) == before


def test_values_of_the_environment() -> None:
    config = Config({"NPACCEL_CHECK": "compute", "NPACCEL_THRESHOLD": "12", "OTHER": "x"})
    assert (config.check, config.threshold, config.backend) == ("compute", 12, "auto")
    assert config.cache_dir.endswith("/.cache/npaccel")
    elsewhere = Config({"XDG_CACHE_HOME": "/there", "HOME": "/home/a"})
    assert elsewhere.cache_dir == "/there/npaccel"
    assert dir(config) == sorted(setting.name for setting in SETTINGS)


@pytest.mark.parametrize(
    ("ours", "openmp", "threads"),
    [
        (None, "3", 3),
        ("2", "3", 2),
        (None, "4,2", 4),
        (None, "9999", 256),
        (None, "x", 0),
        (None, None, 0),
    ],
)
def test_threads_follow_openmp_unless_ours_are_set(ours, openmp, threads) -> None:
    environment = {"NPACCEL_NUM_THREADS": ours, "OMP_NUM_THREADS": openmp}
    given = {name: value for name, value in environment.items() if value is not None}
    assert Config(given).threads == threads


def test_a_subscriber_that_refuses_undoes_the_change() -> None:
    config = Config({})

    def refuse(name: str, value: object) -> None:
        raise ValueError(name)

    config.subscribe(refuse)
    with pytest.raises(ValueError, match="nursery"):
        config.nursery = 5
    assert config.nursery == 1 << 30


def test_a_block_puts_back_what_it_can() -> None:
    config = Config({})

    def refuse(name: str, value: object) -> None:
        if name == "nursery" and value == 1 << 30:
            raise ValueError(name)

    config.subscribe(refuse)
    with pytest.raises(ValueError, match="nursery"), config(nursery=5, threads=3):
        assert config.threads == 3
    assert config.threads == 0


@pytest.mark.parametrize(
    ("name", "meant"),
    [("thredas", "threads"), ("queue_limt", "queue_limit"), ("Backend", "backend")],
)
def test_an_unknown_setting_is_told_with_the_nearest(name: str, meant: str) -> None:
    said = rf"no setting '{name}' \(did you mean '{meant}'\?\); it has accuracy, backend"
    with pytest.raises(ConfigError, match=said):
        setattr(npaccel.config, name, 4)
    with pytest.raises(AttributeError, match=said):
        getattr(npaccel.config, name)
    with pytest.raises(ConfigError, match=said), npaccel.config(**{name: 4}):
        pass


def test_of_settings_for_a_block_none_is_changed_if_one_is_wrong() -> None:
    before = npaccel.config.threshold
    with pytest.raises(ConfigError, match="tiering="), npaccel.config(threshold=1, tiering="no"):
        pass
    assert npaccel.config.threshold == before


def test_a_file_gives_settings_that_variables_outdo(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('threads = 3\ntiering = "off"\nthreshold = 12\n')
    config = Config(
        {"NPACCEL_CONFIG": str(file), "NPACCEL_THRESHOLD": "13", "OMP_NUM_THREADS": "9"}
    )
    assert (config.threads, config.tiering, config.threshold) == (3, "off", 13)
    assert config.unknown == []
    heard: list[tuple[str, object]] = []
    config = Config({})
    config.subscribe(lambda name, value: heard.append((name, value)))
    config.load(file)
    assert heard == [("threads", 3), ("tiering", "off"), ("threshold", 12)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("thredas = 3", "did you mean 'threads'"),
        ("threshold = 1\nthreads = -1", "threads: -1 is not allowed"),
        ("threads = 1.5", "threads: 1.5 is not allowed"),
        ("threads 3", "settings can't be read from"),
        ("[threads]", "threads: {} is not allowed"),
        (b"\xff", "settings can't be read from"),
        (None, "No such file"),
    ],
)
def test_a_wrong_file_changes_nothing_and_is_named(
    tmp_path: Path, text: str | bytes | None, said: str
) -> None:
    file = tmp_path / "settings.toml"
    if text is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    config = Config({})
    for read in (lambda: config.load(file), lambda: Config({"NPACCEL_CONFIG": str(file)})):
        with pytest.raises(ConfigError) as error:
            read()
        assert str(file) in str(error.value) and said in str(error.value)
    assert str(config) == str(Config({}))


def test_an_old_name_holds_with_a_note(tmp_path: Path) -> None:
    config = Config({"NPACCEL_CHECKS": "off"})
    assert config.boundscheck == "off"
    assert config.unknown == [
        "the environment variable NPACCEL_CHECKS is called NPACCEL_BOUNDSCHECK now"
    ]
    assert Config({"NPACCEL_CHECKS": "off", "NPACCEL_BOUNDSCHECK": "on"}).boundscheck == "on"
    (tmp_path / "old.toml").write_text('checks = "off"')

    def block() -> None:
        with config(checks="on"):
            assert config.boundscheck == "on"

    uses = [
        lambda: setattr(config, "checks", "on"),
        lambda: config.checks,
        lambda: config.load(tmp_path / "old.toml"),
        block,
    ]
    for use in uses:
        with pytest.warns(DeprecationWarning, match="'checks' is called 'boundscheck' now") as told:
            use()
        assert told[0].filename == __file__ or use is uses[2]
    assert config.boundscheck == "off"
    with pytest.raises(ConfigError, match=r"config\.checks: 'no' is not allowed"):
        config.checks = "no"
    with pytest.warns(DeprecationWarning, match="boundscheck"):
        npaccel.macro(np.sin, checks="off")
