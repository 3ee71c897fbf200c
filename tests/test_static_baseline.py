"""What was accepted is kept in small, sorted files that are read strictly."""

import json

import pytest

from results.reading import Place, SchemaError
from results.static_baseline import (
    accepted,
    baseline_file,
    gated,
    read_baseline,
    read_baselines,
    write_baselines,
)
from results.static_profile import StaticProfile, read_static
from tests.fake_profiles import loop, profile

SOURCE = {"run": "20261129T193000Z-1234567", "commit": "1234567", "utc": "2026-11-29T19:30:00Z"}


def read(**changes) -> StaticProfile:
    return read_static(profile(**changes), Place("cells.jsonl", 1))


SEVERAL = [
    read(arch="sm_100", ptxas="13.1.80", resources__tensor_memory_columns=512),
    read(arch="sm_80", d_h=64),
    read(arch="sm_90", d_h=128),
    read(kernel="triton_flash_decode", arch="sm_90", hot_loop=None, bound=None, other_loops=[]),
    read(arch="sm_90", d_h=64, hot_loop__mix__select=3, hot_loop__spill_loads=2),
    read(arch="sm_90", d_h=64, constants__IS_CAUSAL=False),
]


def write(folder, profiles, before=()):
    return write_baselines(folder, before, [accepted(p) for p in profiles], SOURCE)


def test_what_is_written_is_read_back(tmp_path):
    (file,) = write(tmp_path / "new" / "folder", SEVERAL)
    assert file == baseline_file(tmp_path / "new" / "folder", "3.7.1")
    back = read_baselines(file.parent)
    assert {one.key: one for one in back} == {p.key: accepted(p) for p in SEVERAL}
    assert {one.breaks for one in back} == {(), ("multiplies",), ("keeps registers", "unmasked")}


def test_a_file_is_one_sorted_line_for_each_profile_whatever_the_runs_order(tmp_path):
    (file,) = write(tmp_path / "a", SEVERAL)
    text = file.read_text()
    (other,) = write(tmp_path / "b", SEVERAL[::-1])
    assert other.read_text() == text
    head, *body, end = text.splitlines()
    assert end == "]}" and len(body) == len(SEVERAL)
    assert json.loads(head + "]}") == {
        "schema": 1, "kind": "static", "accepted": SOURCE, "profiles": [],
    }  # fmt: skip
    lines = [json.loads(line.rstrip(",")) for line in body]
    # by number: sm_100 after sm_90
    assert [(line["kernel"][13:], line["arch"], line["d_h"]) for line in lines] == [
        ("decode", "sm_90", 128),
        ("forward", "sm_80", 64),
        ("forward", "sm_90", 64),
        ("forward", "sm_90", 64),
        ("forward", "sm_90", 128),
        ("forward", "sm_100", 128),
    ]


def test_one_changed_profile_is_one_changed_line_and_the_head(tmp_path):
    (file,) = write(tmp_path, SEVERAL)
    before, old = read_baselines(tmp_path), file.read_text().splitlines()
    changed = [*SEVERAL[1:], read(arch="sm_100", ptxas="13.1.80", resources__registers=200)]
    source = SOURCE | {"run": "20261130T000000Z-7654321"}
    write_baselines(tmp_path, before, [accepted(p) for p in changed], source)
    new = file.read_text().splitlines()
    assert [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b] == [0, 6]


def test_nothing_is_written_where_nothing_changed(tmp_path):
    (file,) = write(tmp_path, SEVERAL)
    file.chmod(0o444)
    before = read_baselines(tmp_path)
    assert write(tmp_path, SEVERAL[::-1], before) == []
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_each_triton_has_its_file_and_all_are_read(tmp_path):
    files = write(tmp_path, [read(), read(triton="3.6.0")])
    assert [f.name for f in files] == ["static-triton-3.6.0.json", "static-triton-3.7.1.json"]
    assert {one.triton for one in read_baselines(tmp_path)} == {"3.6.0", "3.7.1"}
    assert read_baselines(tmp_path / "none") == []


def test_only_shipped_kernels_with_default_blocks_are_gated():
    shipped = read()
    others = [read(is_default=False), read(origin="mine.py", d_h=None, dtype=None)]
    assert gated([shipped, *others]) == [shipped]


def test_what_did_not_compile_is_not_accepted():
    with pytest.raises(ValueError, match="error: nothing to accept"):
        accepted(read(status="error", reasons=["no"], resources=None))


def test_zeros_of_the_mix_are_left_out_and_read_as_zeros(tmp_path):
    (file,) = write(tmp_path, [read(hot_loop=loop(select=0))])
    assert '"select"' not in file.read_text()
    (one,) = read_baseline(file)
    assert one.mix == {k: n for k, n in loop()["mix"].items() if n}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text.replace('"schema": 1', '"schema": 7'), "version 7"),
        (lambda text: text.replace('"registers": 255', '"registers": "many"'), "a whole number"),
        (lambda text: text.replace('"registers": 255, ', ""), "registers: missing"),
        (lambda text: text.replace('"profiles"', '"others"'), "profiles: missing"),
        (lambda text: text[:-9], "not JSON"),
        (lambda text: text.replace("\n]}", ",\n" + text.splitlines()[1] + "\n]}"), "second line"),
    ],
)
def test_a_file_that_does_not_say_what_it_should_is_told_by_place(tmp_path, change, told):
    (file,) = write(tmp_path, [read()])
    file.write_text(change(file.read_text()))
    with pytest.raises(SchemaError, match=told) as caught:
        read_baselines(tmp_path)
    assert file.name in str(caught.value)
