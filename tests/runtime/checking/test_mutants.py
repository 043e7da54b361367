"""Check mode finds mutants, kernels with one wrong operation; bench/mutants.py has more."""

from __future__ import annotations

from itertools import islice

import campaign
import pytest
from mutants import wrong

from npaccel.ir import ops

pytestmark = [pytest.mark.usefixtures("deferred"), pytest.mark.pending]
# Which mutants these are follows from the table of operations. Of 2026 one is a wrong copy beside
# `m + m` of bools, which is simplified to a copy: that line is named first, which is right.
MUTANTS = list(islice(campaign.mutants(2027), 32))


@pytest.fixture(autouse=True)
def checked(deferred, setting, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # for what is written of differences
    setting("check", "compute")
    setting("cache", "off")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.name}-{mutant.how}")
def test_a_mutant_is_found_and_named(mutant) -> None:
    verdict = campaign.judge(mutant)
    assert verdict.named or verdict.equivalent, mutant.source


def test_few_are_equivalent_and_the_rule_for_that_can_tell() -> None:
    assert len({mutant.name for mutant in MUTANTS}) > 20
    right = campaign.Mutant(
        "multiply", "f", "off", {"flags": None}, "def program(*_):\n    v = np.multiply(a, b)\n", 2
    )
    assert campaign._is_equivalent(right)
    body = campaign.HOW["off"](ops._TABLE["multiply", "f"].body)
    with wrong("multiply", "f", body=body):
        assert not campaign._is_equivalent(right)
