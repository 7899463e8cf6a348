"""Outputs appear whole or not at all, and tables are what their schema says."""

import signal
import subprocess
import sys
import textwrap
import time

import pandas as pd
import pytest

from workflow_scripts.errors import UserError, nearest, unknown
from workflow_scripts.files import (
    atomic,
    canonical_json,
    fingerprint,
    read_json,
    read_run_record,
    write_run_record,
)
from workflow_scripts.progress import clock
from workflow_scripts.records import read_table, write_table


def test_atomic_leaves_the_old_file_after_an_error(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]


def test_killed_while_writing_leaves_no_output(tmp_path):
    path = tmp_path / "out.json"
    code = f"""
        import time
        from workflow_scripts.files import atomic
        with atomic({str(path)!r}) as temporary:
            temporary.write_text("half")
            print("writing", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not path.exists()


def test_fingerprint_sees_values_and_contents(tmp_path):
    file = tmp_path / "a"
    file.write_text("1")
    first = fingerprint({"a": 1, "b": 2}, file)
    assert first == fingerprint({"b": 2, "a": 1}, file)
    assert first != fingerprint({"a": 1, "b": 3}, file)
    file.write_text("2")
    assert first != fingerprint({"a": 1, "b": 2}, file)
    assert fingerprint("ab", "c") != fingerprint("a", "bc")


def test_canonical_json_refuses_nan():
    with pytest.raises(ValueError):
        canonical_json({"a": float("nan")})


def test_run_record_keeps_the_spec(tmp_path):
    output = tmp_path / "scores.csv"
    write_run_record(output, {"seed": 1}, rows=3)
    record = read_run_record(output)
    assert (
        record["spec"] == {"seed": 1} and record["spec_fingerprint"] == fingerprint({"seed": 1}) and record["rows"] == 3
    )


def test_broken_json_names_the_file(tmp_path):
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(UserError, match=r"x\.json: not valid JSON"):
        read_json(tmp_path / "x.json")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_table_round_trip_keeps_text_and_nulls(tmp_path, suffix):
    path = tmp_path / f"captions.{suffix}"
    rows = [
        {
            "image_id": "007",
            "caption": 'a "quoted",\nbroken line',
            "num_tokens": 3,
            "finish_reason": "stop",
            "num_attempts": 1,
            "error": None,
        },
        {
            "image_id": "1e5",
            "caption": "NA",
            "num_tokens": 1,
            "finish_reason": "stop",
            "num_attempts": 1,
            "error": "empty",
        },
    ]
    write_table(path, rows, "captions")
    frame = read_table(path, "captions")
    assert frame.image_id.tolist() == ["007", "1e5"]
    assert frame.caption.tolist() == [row["caption"] for row in rows]
    assert pd.isna(frame.error[0]) and frame.error[1] == "empty"


def test_wrong_tables_are_refused(tmp_path):
    path = tmp_path / "captioners.csv"
    with pytest.raises(UserError, match="has no column 'familly', did you mean 'family'"):
        write_table(path, [{"captioner": "a", "familly": "b", "label": "c"}], "captioners")
    with pytest.raises(UserError, match="lacks column 'label'"):
        write_table(path, pd.DataFrame({"captioner": ["a"], "family": ["b"]}), "captioners")
    with pytest.raises(UserError, match="does not fit"):
        write_table(path, pd.DataFrame({"captioner": [1.5], "family": ["b"], "label": ["c"]}), "captioners")
    assert not path.exists()


def test_names_and_times():
    assert nearest("engin", ["engine", "model"]) == "engine" and nearest("xyz", ["engine"]) is None
    assert "did you mean 'qwen'" in str(unknown("captioner", "qwenn", ["qwen", "glm"]))
    assert clock(3725) == "1:02:05" and clock(float("inf")) == "unknown time"
