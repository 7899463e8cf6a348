import json
import random
import shutil

import numpy as np
import pandas as pd
import pytest
from transformers import AutoTokenizer, CLIPTokenizer

from workflow_scripts.blocks.world import describe, sample_scene, say
from workflow_scripts.captions import statistics
from workflow_scripts.captions.encoders import read_encoders, token_counts
from workflow_scripts.captions.read import FAULTS, FINGERPRINT
from workflow_scripts.errors import UserError
from workflow_scripts.files import sha256_file, write_json
from workflow_scripts.plan import CaptionStatisticsJob, TextReader
from workflow_scripts.records import read_table, write_table
from workflow_scripts.spec import Source

BLOCKS = {"vlm": "clip-llama", "sd3": "sd3", "qwen-image": "qwen-image"}
LIMITS = {"vlm": 12, "sd3": 1, "qwen-image": 20}
ERRORS = [None, None, None, None, "cut", "empty", "repetition", "out of memory"]


def reader(family, folder=None):
    return TextReader(
        family=family, model=Source(path=folder or f"resources/blocks/{BLOCKS[family]}"), max_tokens=LIMITS[family]
    )


def readers():
    return {f"my-{family}": reader(family) for family in BLOCKS}


def captions(seed, number=150):
    """Rows of table `captions` with faults of every sort."""
    rng = random.Random(seed)
    rows = []
    for n in range(number):
        text, error = say(describe(sample_scene(rng))), rng.choice(ERRORS)
        text = {"empty": "", "repetition": "Red, red. " * rng.randint(5, 40), "out of memory": None}.get(error, text)
        rows.append(
            {
                "image_id": f"{seed}-{n}",
                "caption": text,
                "num_tokens": None if text is None else rng.randint(0, 90),
                "finish_reason": "length" if error in ("cut", "repetition") else "stop",
                "num_attempts": rng.randint(1, 2),
                "error": error,
            }
        )
    return rows


def shards(folder, leave_out, *tables):
    """A manifest of shards."""
    listed = []
    for number, rows in enumerate(tables):
        path = folder / f"{number:05d}.parquet"
        write_table(path, rows, "captions", {FINGERPRINT: "f"})
        listed.append({"path": path.name, "rows": len(rows), "sha256": sha256_file(path)})
    write_json(folder / "captions.json", {"fingerprint": "f", "leave_out": list(leave_out), "shards": listed})


def measured(folder, threads=1, pipelines=None):
    job = CaptionStatisticsJob(captioner="late", pipelines=readers() if pipelines is None else pipelines)
    statistics.main([
        "--spec", job.model_dump_json(), "--captions", str(folder / "captions.json"), "--threads", str(threads),
        "--out", str(folder / "statistics.csv"), "--limits", str(folder / "limits.csv"),
        "--lengths", str(folder / "lengths.csv"), "--unusable", str(folder / "unusable.parquet"),
    ])  # fmt: skip
    tables = {"statistics": "caption_statistics", "limits": "caption_limits", "lengths": "caption_lengths"}
    return [read_table(folder / f"{name}.csv", table) for name, table in tables.items()]


@pytest.mark.parametrize("leave_out", [FAULTS, ("empty", "cut")])
def test_statistics_are_those_of_the_whole_table(tmp_path, monkeypatch, leave_out):
    monkeypatch.setattr(statistics, "BATCH", 64)
    tables = [captions(0), captions(1), captions(2, 7)]
    shards(tmp_path, leave_out, *tables)
    (row,) = measured(tmp_path)[0].to_dict("records")
    whole = pd.concat(map(pd.DataFrame, tables), ignore_index=True)
    forgiven = whole["caption"].notna() & ~whole["error"].isin(leave_out)
    usable = whole[whole["error"].isna() | forgiven]
    assert (row["captioner"], row["num_images"], row["num_usable"]) == ("late", 307, len(usable))
    assert row["num_asked_again"] == (whole["num_attempts"] == 2).sum()
    kinds = whole["error"].value_counts()
    assert {f: row[f"num_{f}"] for f in FAULTS if row[f"num_{f}"]} == {f: kinds[f] for f in FAULTS if f in kinds}
    assert row["num_failed"] == kinds["out of memory"] > 0
    assert row["share_at_limit"] == pytest.approx((kinds["cut"] + kinds["repetition"]) / 307)
    lengths = {"words": usable["caption"].str.split().str.len(), "tokens": usable["num_tokens"]}
    for name, values in lengths.items():
        expected = {"mean": values.mean(), "p50": values.median(), "p95": values.quantile(0.95), "max": values.max()}
        assert {key: row[f"{name}_{key}"] for key in expected} == pytest.approx(expected)
    words = {word.strip(".,") for caption in usable["caption"] for word in caption.lower().split()} - {""}
    assert row["distinct_words"] == len(words)
    assert row["repetition"] == pytest.approx(np.mean([repeated(caption) for caption in usable["caption"]]))


def repeated(caption):
    words = caption.lower().split()
    windows = [" ".join(words[n : n + 4]) for n in range(len(words) - 3)]
    return sum(window in windows[:n] for n, window in enumerate(windows)) / len(windows) if windows else 0.0


def test_lengths_and_limits_are_those_of_the_pipelines_tokenizers(tmp_path):
    shards(tmp_path, FAULTS, captions(0), captions(1))
    _, limits, lengths = measured(tmp_path)
    usable = [row["caption"] for row in captions(0) + captions(1) if row["error"] is None]
    expected = {
        ("my-vlm", "language model"): (12, [len(text.split()) for text in usable]),
        ("my-sd3", "CLIP-L"): (20, [len(text.split()) + 2 for text in usable]),
        ("my-sd3", "CLIP-G"): (20, [len(text.split()) + 2 for text in usable]),
    }
    qwen = AutoTokenizer.from_pretrained("resources/blocks/qwen-image/tokenizer")
    expected["my-qwen-image", "Qwen"] = (20, [len(qwen(text)["input_ids"]) + 5 for text in usable])
    assert limits.set_index(["pipeline", "encoder"]).index.tolist() == list(expected)
    for row in limits.itertuples():
        limit, counts = expected[row.pipeline, row.encoder]
        over = sum(count > limit for count in counts)
        assert (row.limit, row.num_captions, row.num_over) == (limit, len(usable), over)
        assert row.share_over == pytest.approx(over / len(usable))
    assert (limits["num_over"] > 0).tolist() == [True, False, False, True]  # CLIP's limit fits the world's captions
    for (pipeline, encoder), (_, counts) in expected.items():
        rows = lengths[(lengths["pipeline"] == pipeline) & (lengths["encoder"] == encoder)]
        binned = {(low, high): n for low, high, n in zip(rows["low"], rows["high"], rows["num_captions"], strict=True)}
        assert binned == {(n, n + 1): counts.count(n) for n in set(counts)}
    own = lengths[lengths["pipeline"].isna()]
    assert own["num_captions"].sum() == len(usable) and (own["encoder"] == "own").all()
    assert own["high"].sub(own["low"]).max() == 4  # of the captioner's random 0 to 90


@pytest.mark.parametrize("leave_out", [FAULTS, ("empty", "cut")])
def test_captions_that_stay_out_of_training_are_listed_with_their_faults(tmp_path, monkeypatch, leave_out):
    """By the tokenizer as training used to count: without special tokens, without the space around a caption."""
    monkeypatch.setattr(statistics, "BATCH", 64)
    padded = [row | {"caption": row["caption"] and f" {row['caption']}\n"} for row in captions(1)]
    blank = captions(2, 3)[0] | {"caption": " \n", "error": None}
    tables = [captions(0), padded, [blank]]
    shards(tmp_path, leave_out, *tables)
    measured(tmp_path, pipelines=readers() | {"long-vlm": reader("vlm").model_copy(update={"max_tokens": 14})})
    tokenizer, expected = AutoTokenizer.from_pretrained("resources/blocks/clip-llama"), []
    for row in (row for table in tables for row in table):
        text, fault = (row["caption"] or "").strip(), row["error"]
        forgiven = fault in FAULTS and fault not in leave_out and text
        if fault is not None and not forgiven:
            expected.append((row["image_id"], None, fault if fault in FAULTS else "failed"))
        elif not text:
            expected.append((row["image_id"], None, "empty"))
        else:
            length = len(tokenizer(text, add_special_tokens=False)["input_ids"])
            limits = {"my-vlm": 12, "long-vlm": 14}
            expected += [(row["image_id"], name, "too_long") for name, limit in limits.items() if length > limit]
    table = read_table(tmp_path / "unusable.parquet", "unusable").astype(object)
    found = table.where(table.notna(), None).itertuples(index=False, name=None)
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert {"failed", "empty", "too_long"} <= {fault for *_, fault in expected}


def test_encoders_count_as_training_does():
    from workflow_scripts.t2i.families import FAMILIES

    rng = random.Random(0)
    texts = [say(describe(sample_scene(rng))) for _ in range(20)] + ["a word outside: zebra", "x"]
    for family in ("sd3", "qwen-image"):
        encoders = read_encoders({"p": reader(family)})
        trained = FAMILIES[family].load(reader(family).model, LIMITS[family]).text_tokens(texts)
        counted = zip(encoders, token_counts(encoders, texts), strict=True)
        assert {e.name: (e.limit, lengths.tolist()) for e, lengths in counted} == trained
    (encoder,) = read_encoders({"p": reader("vlm")})
    tokenizer = AutoTokenizer.from_pretrained("resources/blocks/clip-llama")
    expected = [len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]
    assert token_counts([encoder], texts)[0].tolist() == expected


def test_clip_counts_its_begin_and_end_within_77(tmp_path):
    vocabulary = {"a": 0, "a</w>": 1, "<|startoftext|>": 2, "<|endoftext|>": 3}
    for part in ("tokenizer", "tokenizer_2", "tokenizer_3"):
        CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77).save_pretrained(tmp_path / part)
    encoders = read_encoders({"p": reader("sd3", tmp_path).model_copy(update={"max_tokens": 512})})
    assert [(encoder.name, encoder.limit) for encoder in encoders] == [("CLIP-L", 77), ("CLIP-G", 77), ("T5", 512)]
    assert len({encoder.counts_as for encoder in encoders}) == 1, "one count serves all three"
    assert [row.tolist() for row in token_counts(encoders, ["a " * 75, "a " * 76, ""])] == [[77, 78, 2]] * 3


def test_processes_change_nothing(tmp_path):
    for threads in (1, 2):
        folder = tmp_path / str(threads)
        shards(folder, FAULTS, captions(0), captions(1), captions(2))
        measured(folder, threads)
    for name in ("statistics.csv", "limits.csv", "lengths.csv", "unusable.parquet"):
        one, two = ((tmp_path / folder / name).read_bytes() for folder in ("1", "2"))
        assert one == two


def test_captions_of_an_engine_without_tokens_and_a_sweep_without_pipelines(tmp_path):
    shards(tmp_path, FAULTS, [row | {"num_tokens": None} for row in captions(0)])
    table, limits, lengths = measured(tmp_path, pipelines={})
    assert table[["tokens_mean", "tokens_p95", "tokens_max"]].isna().all(axis=None) and table["words_mean"][0] > 0
    assert limits.empty and lengths.empty
    assert set(read_table(tmp_path / "unusable.parquet", "unusable")["fault"]) <= {"failed", *FAULTS}


def test_faults_of_tokenizers_are_named(tmp_path):
    with pytest.raises(UserError, match=r"nowhere: no such folder"):
        read_encoders({"p": reader("vlm", tmp_path / "nowhere")})
    folder = tmp_path / "model"
    shutil.copytree("resources/blocks/clip-llama", folder)
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"tokenizer_class": "OddTokenizer"}))
    with pytest.raises(UserError, match=r"model: transformers has no tokenizer class 'OddTokenizer'"):
        read_encoders({"p": reader("vlm", folder)})
    shutil.copy("resources/blocks/clip-llama/tokenizer_config.json", config)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"model: cannot be read as a TokenizersBackend"):
        read_encoders({"p": reader("vlm", folder)})


@pytest.mark.parametrize("share", [0, 0.05, 0.5, 0.95, 1])
@pytest.mark.parametrize("number", [1, 2, 7, 200])
def test_quantiles_are_exact(number, share):
    values = np.random.default_rng(number).integers(0, 50, number)
    assert statistics.quantile(np.bincount(values), share) == pytest.approx(np.quantile(values, share))


def test_bins_are_single_lengths_then_sixteenths_of_an_octave():
    edges = statistics.bin_edges(1100)
    assert edges[:33] == list(range(33)) and edges[-1] >= 1100
    assert [edge for edge in edges if 64 <= edge <= 128] == list(range(64, 129, 4))
    assert [edge for edge in edges if 512 <= edge <= 1024] == list(range(512, 1025, 32))
    assert statistics.bin_edges(0) == [0]
