"""Answers and their scores: batches change nothing, likelihoods are those of the model, rules are the benchmarks'."""

import hashlib
import json
import random

import pytest
import torch
from PIL import Image
from selections import save_selection
from vlm_helpers import align_spec, indexed, make_base, make_conversations, model_spec

from workflow_scripts.blocks.understanding import write_questions
from workflow_scripts.blocks.world import describe, render, sample_scene, say
from workflow_scripts.captions.read import FINGERPRINT
from workflow_scripts.errors import UserError
from workflow_scripts.files import fingerprint, read_json, read_run_record, write_json, write_jsonl
from workflow_scripts.plan import EvaluateJob
from workflow_scripts.records import read_table, write_table
from workflow_scripts.spec import VlmModel
from workflow_scripts.vlm import align, evaluate, train
from workflow_scripts.vlm.answering import choose, log_likelihoods, write_answers
from workflow_scripts.vlm.batches import Batches
from workflow_scripts.vlm.blocks_benchmarks import read_questions
from workflow_scripts.vlm.model import load
from workflow_scripts.vlm.scale import check_evaluation
from workflow_scripts.vlm.scoring import extract, score


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("base") / "clip-llama")


@pytest.fixture(scope="module")
def answerer(base):
    model, processor = load(base, VlmModel.model_validate(model_spec(base)))
    return model.eval(), Batches(processor, 64)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Questions of three lengths about six pictures."""
    folder, rng, pairs = tmp_path_factory.mktemp("asked"), random.Random(0), []
    for index in range(6):
        Image.fromarray(render(sample_scene(rng))).save(folder / f"{index}.png")
        question = ("describe", "how many ?", "is there a red circle ?")[index % 3]
        pairs.append((folder / f"{index}.png", question))
    return pairs


def test_answers_in_a_batch_are_those_one_at_a_time(answerer, asked):
    together = write_answers(*answerer, asked, 6)
    assert together == [write_answers(*answerer, [one], 6)[0] for one in asked]
    assert len(set(together)) > 1
    assert write_answers(*answerer, [], 6) == []


def test_an_answer_is_the_likeliest_token_each_time(answerer, asked):
    """Greedy decoding by hand, without a cache or padding."""
    model, batches = answerer
    (ids,) = batches.prompts(asked[:1])
    words = []
    for _ in range(4):
        logits = model(input_ids=torch.tensor([ids]), pixel_values=batches.pixels([asked[0][0]])).logits
        ids = [*ids, int(logits[0, -1].argmax())]
        words.append(batches.tokenizer.decode(ids[-1:]))
    assert write_answers(model, batches, asked[:1], 4) == [" ".join(words)]


def test_the_chosen_option_is_the_likeliest_whole_answer(answerer, asked):
    model, batches = answerer
    options = [["red", "topleft red circle", "no"], ["1", "2"]] * 3
    expected = []
    for (image, question), choices in zip(asked, options, strict=True):
        (prompt,) = batches.prompts([(image, question)])
        likelihoods = []
        for option in choices:
            tokens = batches.tokenizer(option + " <eos>", add_special_tokens=False)["input_ids"]
            row = torch.tensor([prompt + tokens])
            logs = model(input_ids=row, pixel_values=batches.pixels([image])).logits[0].log_softmax(-1)
            likelihoods.append(sum(logs[len(prompt) + i - 1, token].item() for i, token in enumerate(tokens)))
        expected.append(likelihoods.index(max(likelihoods)))
    assert choose(model, batches, asked, options) == expected


def test_log_likelihoods_by_hand():
    logits = torch.log(torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]]]))
    labels = torch.tensor([[-100, 1, 2]])  # token 1 after position 0, token 2 after position 1
    expected = torch.log(torch.tensor([0.25 * 0.1]))
    torch.testing.assert_close(log_likelihoods(logits, labels), expected)


@pytest.mark.parametrize(
    ("kind", "raw", "answer"),
    [
        ("existence", "Yes, there is.", "yes"),
        ("existence", "no", "no"),
        ("existence", "maybe", None),
        ("count", "there are 3 of them", "3"),
        ("count", "three", None),
        ("color", "small red", "red"),
        ("size", "small red", "small"),
        ("position", "", None),
    ],
)
def test_extraction(kind, raw, answer):
    assert extract(kind, raw) == answer


def rows_of(*triples: tuple[str | None, str, str | None]) -> list[dict]:
    """Answers from (answer, expected, group)."""
    return [
        {"question_id": str(i), "image": str(i), "kind": "k", "answer": a, "expected": e, "group": g, "correct": a == e}
        for i, (a, e, g) in enumerate(triples)
    ]


def test_scores_by_hand():
    pope = rows_of(("yes", "yes", None), ("yes", "no", None), ("no", "yes", None), ("no", "no", None),
                   (None, "yes", None))  # fmt: skip
    row = score("blocks_pope", pope)  # TP 1, FP 1, FN 2
    assert (row["metric"], row["raw"], row["score"]) == ("f1", pytest.approx(0.4), pytest.approx(40))
    assert (row["num_items"], row["num_unparsed"], row["chance"]) == (5, 1, 50.0)
    assert (row["harness"], row["comparable"]) == ("capsweep", True)

    pairs = rows_of(("red", "red", "a"), ("blue", "blue", "a"), ("red", "red", "b"), ("red", "blue", "b"))
    assert score("blocks_pairs", pairs)["score"] == 50
    assert score("blocks_counting", pairs)["score"] == 75

    never = rows_of(("no", "yes", None), (None, "yes", None))
    assert score("blocks_pope", never)["raw"] == 0


def make_benchmark(folder, name, count):
    """A benchmark's folder, as the world makes it."""
    (folder / "images").mkdir(parents=True)
    questions = []
    for index, item in enumerate(write_questions(name, count, random.Random(0))):
        Image.fromarray(render(item.scene)).save(folder / "images" / f"{index}.png")
        questions.append({
            "id": f"{name}-{index}", "image": f"{index}.png", "question": item.question, "options": item.options,
            "answer": item.answer, "kind": item.kind, "group": item.group,
        })  # fmt: skip
    write_jsonl(folder / "questions.jsonl", questions)
    return folder


def make_captions(folder, count):
    """A pool, and its true captions but for two that are unusable: images.parquet, captions.json."""
    rng, images, captions = random.Random(0), [], []
    folder.mkdir()
    for index in range(count):
        scene, path = sample_scene(rng), folder / f"{index}.png"
        Image.fromarray(render(scene, rng)).save(path)
        image_id = hashlib.sha256(path.read_bytes()).hexdigest()
        images.append({"index": index, "image_id": image_id, "source": "blocks", "path": str(path), "width": 32,
                       "height": 32, "notes": None})  # fmt: skip
        caption = "" if index == 1 else say(describe(scene))
        captions.append({"image_id": image_id, "caption": caption, "num_tokens": 9, "finish_reason": "stop",
                         "num_attempts": 1, "error": "repetition" if index == 0 else None})  # fmt: skip
    write_table(folder / "images.parquet", images, "images")
    write_table(folder / "00000.parquet", captions, "captions", metadata={FINGERPRINT: "x"})
    shard = {"path": "00000.parquet", "rows": count, "sha256": "s"}
    write_json(folder / "captions.json", {"shards": [shard], "fingerprint": "x", "leave_out": ["empty", "repetition"]})
    return folder


def test_from_alignment_to_scores(tmp_path, base):
    data, pool = make_conversations(tmp_path / "data", 8), make_captions(tmp_path / "pool", 10)

    def paths(name):
        out = ["--out", str(tmp_path / name / "model.json"), "--log-table", str(tmp_path / name / "training.csv")]
        return out + indexed(sft)

    sft = align_spec(base, data, steps=2)
    sft["stage"].update(caption_instruction="describe", max_caption_tokens=24, questions_from_captions=True)
    align.main(["--spec", json.dumps(align_spec(base, data, steps=2)), *paths("align")])
    start = ["--start", str(tmp_path / "align" / "model.json"), "--pool", str(pool / "images.parquet")]
    left_out = dict.fromkeys(read_table(pool / "images.parquet", "images")["image_id"][:2], "empty")
    selection = save_selection(tmp_path / "selection.parquet", pool / "captions.json", left_out)
    chosen = ["--captions", str(pool / "captions.json"), "--selection", str(selection)]
    kept = tmp_path / "sft" / "selection.parquet"
    train.main(["--spec", json.dumps(sft), *start, *chosen, "--kept-selection", str(kept), *paths("sft")])
    assert kept.read_bytes() == selection.read_bytes()
    record = read_run_record(tmp_path / "sft" / "model.json")
    told = {"num_images": 10, "num_left_out": 2, "left_out_fingerprint": fingerprint(sorted(left_out))}
    assert record["selection"] == told
    counts = ("num_captions", "num_questions_from_captions", "num_conversations", "num_samples")
    assert [record[name] for name in counts] == [8, 8, 8, 24]
    assert read_json(tmp_path / "sft" / "model.json")["fingerprint"] in [p.name for p in (tmp_path / "sft").iterdir()]

    names = ("blocks_attributes", "blocks_choice", "blocks_pairs", "blocks_pope")
    benchmarks = {name: {"path": str(make_benchmark(tmp_path / name, name, 6))} for name in names}
    spec = {"model": model_spec(base), "benchmarks": benchmarks, "max_new_tokens": 4}
    out = ["--answers", str(tmp_path / "answers.parquet"), "--out", str(tmp_path / "scores.csv")]
    evaluate.main(["--spec", json.dumps(spec), "--model", str(tmp_path / "sft" / "model.json"), *out])
    answers = read_table(tmp_path / "answers.parquet", "answers")
    assert answers.groupby("benchmark").size().to_dict() == dict.fromkeys(names, 6)
    chosen = answers[answers["extraction"] == "likelihood"]
    assert set(chosen["benchmark"]) == {"blocks_choice", "blocks_pairs"}
    assert (answers["correct"] == (answers["answer"] == answers["expected"])).all()
    scores = read_table(tmp_path / "scores.csv", "benchmark_scores").set_index("benchmark")
    assert sorted(scores.index) == sorted(names)
    share = answers[answers["benchmark"] == "blocks_choice"]["correct"].mean()
    assert scores.loc["blocks_choice", "score"] == pytest.approx(100 * share)
    assert scores["num_unparsed"].sum() == answers["answer"].isna().sum()
    assert read_run_record(tmp_path / "scores.csv")["num_questions"] == 24


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": "b.png"}, "question 'blocks_choice-0': no image .*b.png"),
        ({"answer": "violet"}, "the answer 'violet' is none of"),
        ({"group": ...}, "question 'blocks_choice-0' lacks group"),
    ],
)
def test_broken_questions_stop(tmp_path, change, message):
    folder = make_benchmark(tmp_path / "blocks_choice", "blocks_choice", 2)
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    questions[0] = {k: v for k, v in {**questions[0], **change}.items() if v is not ...}
    write_jsonl(folder / "questions.jsonl", questions)
    with pytest.raises(UserError, match=message):
        read_questions(folder)


def test_missing_benchmarks_are_named(tmp_path):
    def job(name, path, **more):
        model = {"base": {"path": tmp_path}, "chat_template": "blocks"}
        return EvaluateJob(model=model, benchmarks={name: {"path": path}}, max_new_tokens=8, **more)

    with pytest.raises(UserError, match="unknown name 'block_pope', did you mean 'blocks_pope'"):
        check_evaluation(job("block_pope", tmp_path))
    for name in ("blocks_pope", "mme"):
        with pytest.raises(UserError, match=rf"understanding\.benchmarks\.{name}: no such folder"):
            check_evaluation(job(name, tmp_path / "absent"))
    with pytest.raises(UserError, match="'engine' is null, but mme needs one"):
        check_evaluation(job("mme", tmp_path))
    check_evaluation(job("blocks_pope", tmp_path))
