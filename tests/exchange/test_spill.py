import datetime as dt
import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from reshape.exchange.errors import SpillError
from reshape.exchange.spill import Segment, SpillSpace, sweep


def numbers(start: int, rows: int = 1_000) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, start + rows), pa.int64())})


def files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


def write_until_refused(space: SpillSpace, batches: int) -> None:
    segment = Segment(space, numbers(0).schema)
    for start in range(batches):
        segment.write(numbers(start))


class FullDisk(SpillSpace):
    """Its files are links to /dev/full, where every write fails for lack of space."""

    def new_file(self) -> Path:
        path = super().new_file()
        path.symlink_to("/dev/full")
        return path


def open_files_below(directory: Path) -> list[str]:
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    return [link for link in links if link.startswith(str(directory))]


def test_rows_come_back_in_order_and_the_file_goes(tmp_path: Path) -> None:
    space = SpillSpace([str(tmp_path)])
    written = [numbers(start) for start in range(0, 10_000, 1_000)]
    segment = Segment(space, written[0].schema)
    for batch in written:
        segment.write(batch)
    assert len(files(tmp_path)) == 1
    held = space.held_bytes
    assert 0 < held <= files(tmp_path)[0].stat().st_size
    for number, batch in enumerate(written):
        assert files(tmp_path), f"the file went before batch {number} was read"
        assert segment.read().equals(batch)
        assert not segment.open_for_writing
    assert files(tmp_path) == []
    assert (space.held_bytes, space.written_bytes) == (0, held)
    space.close()
    assert open_files_below(tmp_path) == []


def test_all_kinds_of_columns_come_back(tmp_path: Path) -> None:
    space = SpillSpace([str(tmp_path)])
    batch = pa.record_batch(
        {
            "text": pa.array(["", None, "zoë", "x" * 5_000]),
            "word": pa.array(["a", "b", None, "a"]).dictionary_encode(),
            "nested": pa.array([[{"a": 1}], None, [], [{"a": None}, {"a": 2}]]),
            "nothing": pa.nulls(4),
            "when": pa.array([dt.datetime(2020, 1, 1), None, None, None], pa.timestamp("us", "UTC")),
            "price": pa.array([None, 1, 2, 3], pa.int64()).cast(pa.decimal128(21, 2)),
        }
    )
    other_words = batch.set_column(1, "word", pa.array(["c", None, "d", "d"]).dictionary_encode())
    written = [batch, batch.slice(1, 2), batch.slice(0, 0), other_words, batch.slice(3)]
    segment = Segment(space, batch.schema)
    for part in written:
        segment.write(part)
    for part in written:
        assert segment.read().to_pylist() == part.to_pylist()


def test_encrypted_rows_come_back_and_cannot_be_read_on_disk(tmp_path: Path) -> None:
    batch = pa.record_batch({"text": ["the secret of row"] * 50, "n": range(50)})
    for encrypted in (False, True):
        space = SpillSpace([str(tmp_path)], encrypted=encrypted)
        segment = Segment(space, batch.schema)
        written = [batch, batch.slice(10, 5), batch.slice(0, 0)]
        numbered = [segment.write(part) for part in written]
        segment.finish()
        (path,) = files(tmp_path)
        assert (b"secret of row" in path.read_bytes()) is not encrypted
        assert (b"text" in path.read_bytes()) is not encrypted
        assert [segment.read(number).to_pylist() for number in reversed(numbered)] == [
            part.to_pylist() for part in reversed(written)
        ]
        space.close()


@pytest.mark.parametrize("damage", ["a changed byte", "cut", "garbled"])
def test_encrypted_rows_that_were_changed_are_not_taken(tmp_path: Path, damage: str) -> None:
    segment = Segment(SpillSpace([str(tmp_path)], encrypted=True), numbers(0).schema)
    segment.write(numbers(0))
    segment.finish()
    (path,) = files(tmp_path)
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes({"a changed byte": bytes(data), "cut": bytes(data[:15]), "garbled": b"\xff" * len(data)}[damage])
    with pytest.raises(SpillError, match="cannot keep waiting rows"):
        segment.read()


def test_rows_without_columns_are_still_rows(tmp_path: Path) -> None:
    batch = numbers(0, 7).select([])
    segment = Segment(SpillSpace([str(tmp_path)]), batch.schema)
    segment.write(batch)
    assert segment.read().num_rows == 7


def test_closing_early_leaves_nothing(tmp_path: Path) -> None:
    space = SpillSpace([str(tmp_path)])
    unread, half_read = Segment(space, numbers(0).schema), Segment(space, numbers(0).schema)
    for segment in (unread, half_read):
        segment.write(numbers(0))
        segment.write(numbers(1))
    half_read.read()
    unread.close()
    assert len(files(tmp_path)) == 1
    unread.close()
    half_read.close()
    assert files(tmp_path) == []
    assert space.held_bytes == 0


def test_space_closes_and_removes_everything(tmp_path: Path) -> None:
    space = SpillSpace([str(tmp_path)])
    segments = [Segment(space, numbers(0).schema) for _ in range(3)]
    for segment in segments:
        segment.write(numbers(0))
        segment.write(numbers(1))
    segments[0].read()
    segments[1].finish()
    space.close()
    assert list(tmp_path.iterdir()) == []
    assert open_files_below(tmp_path) == []
    assert space.held_bytes == 0
    with pytest.raises(SpillError, match="closing"):
        Segment(space, numbers(0).schema)
    with pytest.raises(SpillError):
        segments[0].read()
    with pytest.raises(SpillError):
        segments[2].write(numbers(0))
    space.close()
    assert list(tmp_path.iterdir()) == []


def test_unused_space_makes_no_directory(tmp_path: Path) -> None:
    SpillSpace([str(tmp_path)]).close()
    assert list(tmp_path.iterdir()) == []


def test_limit_names_place_and_setting(tmp_path: Path) -> None:
    space = SpillSpace([str(tmp_path)], limit_bytes=20_000)
    first = Segment(space, numbers(0).schema)
    first.write(numbers(5))
    with pytest.raises(SpillError, match=r"limit is 20,000; raise spark\.reshape\.spillLimit") as caught:
        write_until_refused(space, 100)
    assert str(tmp_path) in str(caught.value)
    assert first.read().equals(numbers(5))
    space.close()
    assert space.held_bytes == 0


def test_full_disk_names_path_and_setting(tmp_path: Path) -> None:
    space = FullDisk([str(tmp_path)])
    with pytest.raises(SpillError, match=r"spark\.local\.dir") as caught:
        write_until_refused(space, 1)
    assert str(tmp_path) in str(caught.value)
    assert os.strerror(errno.ENOSPC) in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    space.close()
    assert list(tmp_path.iterdir()) == []
    assert Path("/dev/full").exists()
    assert open_files_below(Path("/dev/full")) == []


def test_lost_local_directory_is_passed_over(tmp_path: Path) -> None:
    gone, good = tmp_path / "gone", tmp_path / "good"
    good.mkdir()
    space = SpillSpace([str(gone), str(good)])
    Segment(space, numbers(0).schema).write(numbers(0))
    assert len(files(good)) == 1
    with pytest.raises(SpillError, match=r"spark\.local\.dir") as caught:
        Segment(SpillSpace([str(gone)]), numbers(0).schema)
    assert str(gone) in str(caught.value)


@pytest.mark.parametrize("damage", ["removed", "cut", "garbled"])
def test_damaged_file_is_a_spill_error(tmp_path: Path, damage: str) -> None:
    segment = Segment(SpillSpace([str(tmp_path)]), numbers(0).schema)
    segment.write(numbers(0))
    segment.write(numbers(1))
    (path,) = files(tmp_path)
    segment.finish()
    if damage == "removed":
        path.unlink()
    elif damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        path.write_bytes(b"\x17" * path.stat().st_size)
    with pytest.raises(SpillError, match="cannot keep waiting rows") as caught:
        [segment.read() for _ in range(2)]
    assert str(path) in str(caught.value)


def test_what_a_killed_task_left_is_swept_away(tmp_path: Path) -> None:
    living, killed = SpillSpace([str(tmp_path)]), tmp_path / "reshape-spill-killed"
    Segment(living, numbers(0).schema).write(numbers(0))
    killed.mkdir()
    (killed / "1.arrows").write_bytes(b"rows")
    sweep([str(tmp_path), str(tmp_path / "nowhere")])
    assert not killed.exists()
    assert len(files(tmp_path)) == 1
    living.close()
