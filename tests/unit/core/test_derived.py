"""A derived value is made again for other inputs only."""

from __future__ import annotations

import pytest

from exporter.core.derived import Derived, DerivedByKey, VersionedDict


class Doubled:
    """Doubles a list, and counts its calls. Raises for an empty one."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, numbers: tuple[int, ...]) -> list[int]:
        self.calls += 1
        if not numbers:
            raise ValueError("nothing to double")
        return [2 * abs(number) for number in numbers]


def test_it_is_made_again_for_other_inputs_only() -> None:
    double = Doubled()
    derived = Derived(double)
    found = [derived(numbers) for numbers in ((1,), (1,), (2,), (2,), (1,))]
    assert found == [[2], [2], [4], [4], [2]]
    assert double.calls == 3
    assert found[0] is found[1]


def test_a_result_that_equals_the_last_one_is_that_one() -> None:
    double = Doubled()
    derived, by_key = Derived(double), DerivedByKey[str, list[int]](double)
    assert derived((1,)) is derived((-1,))
    assert by_key("a", (1,)) is by_key("a", (-1,))
    assert by_key("a", (1,)) is not by_key("b", (1,))
    assert double.calls == 6


def test_what_expired_is_made_again_for_the_same_inputs() -> None:
    double = Doubled()
    derived, by_key = Derived(double), DerivedByKey[str, list[int]](double)
    for _ in range(3):
        assert derived((1,)) == by_key("a", (1,)) == by_key("b", (1,)) == [2]
        derived.expire()
        by_key.expire("a")
    assert double.calls == 3 + 3 + 1
    assert by_key.last("a") == [2]


def test_what_could_not_be_made_leaves_the_last_result_and_is_made_at_the_next_call() -> None:
    double = Doubled()
    derived = Derived(double)
    first = derived((1,))
    with pytest.raises(ValueError, match="nothing"):
        derived(())
    assert derived((1,)) is first
    assert double.calls == 2
    with pytest.raises(ValueError, match="nothing"):
        derived(())


def test_only_the_keys_that_are_kept_are_known() -> None:
    double = Doubled()
    by_key = DerivedByKey[str, list[int]](double)
    for key in ("a", "b"):
        by_key(key, (1,))
    by_key.keep({"b", "c"})
    assert (by_key.last("a"), by_key.last("b"), by_key.last("c")) == (None, [2], None)


def test_the_version_of_a_dict_is_another_one_after_each_change() -> None:
    counts = VersionedDict[str, int]()
    versions = [counts.version]
    counts["a"] = 1
    versions.append(counts.version)
    counts["a"] = 1  # a change, too: what has the same value may be another object
    versions.append(counts.version)
    assert counts.pop("a") == 1
    versions.append(counts.version)
    assert counts.pop("a", None) is None
    assert counts.version == versions[-1]
    assert len(set(versions)) == 4
