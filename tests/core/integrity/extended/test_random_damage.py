"""Any combination of damage is found, repaired as far as it can be, and never made worse."""

from __future__ import annotations

import shutil
import tempfile
from hashlib import sha256
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.core.integrity.conftest import DamagedDirectory
from tests.core.integrity.test_findings import (
    NOT_REPAIRABLE,
    REPAIRABLE,
    Plant,
    add_key_of_missing_account,
    add_words_without_image,
    change_words,
    delete_derivative,
    delete_from_full_text_index,
    delete_master,
    empty_derivative,
    flip_byte_of_derivative,
    flip_byte_of_master,
    set_key_count,
    truncate_master,
)

from imagehost_core.maintenance.check.findings import FindingKind

EXCLUSIVE = (
    {delete_master, flip_byte_of_master, truncate_master},
    {delete_derivative, empty_derivative, flip_byte_of_derivative},
)
"""Damage of one file, which can be damaged in one way."""
KINDS = {**REPAIRABLE, **NOT_REPAIRABLE}
OF_DAMAGED_MASTER = {FindingKind.DERIVATIVE_MISSING, FindingKind.DERIVATIVE_CORRUPT}
DAMAGE = st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=8, unique=True).filter(
    lambda plants: all(len(group.intersection(plants)) <= 1 for group in EXCLUSIVE)
)


def masters(directory: DamagedDirectory) -> dict[str, str]:
    """Return the SHA-256 of each master of a record."""
    images = (directory.photo, *directory.others)
    paths = (directory.folder(image) / "master" for image in images)
    return {path.parent.name: sha256(path.read_bytes()).hexdigest() for path in paths if path.exists()}


@settings(max_examples=8)
@given(DAMAGE)
@example([delete_from_full_text_index, change_words, add_words_without_image])
@example([set_key_count, add_key_of_missing_account])
@example([add_key_of_missing_account, set_key_count])
def test_all_damage_is_found_and_a_repair_leaves_only_what_cannot_be_repaired(
    original: DamagedDirectory, plants: list[Plant]
) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(shutil.copytree(original.path, Path(temporary) / "data"))
        directory = DamagedDirectory(path, original.photo, original.others)
        # No words can be changed after the damage of their index.
        plants = sorted(plants, key=lambda plant: plant is delete_from_full_text_index)
        planted = {plant: (KINDS[plant], plant(directory)) for plant in plants}
        before = masters(directory)
        assert {*planted.values()} <= {(each.kind, each.id) for each in directory.check()}
        left = {(each.kind, each.id) for each in directory.check(repair=True) if not each.is_repaired}
        assert {(each.kind, each.id) for each in directory.check()} == left
        assert {finding for plant, finding in planted.items() if plant in NOT_REPAIRABLE} <= left
        assert {kind for kind, _ in left} <= {*NOT_REPAIRABLE.values(), *OF_DAMAGED_MASTER}
        assert masters(directory) == before
