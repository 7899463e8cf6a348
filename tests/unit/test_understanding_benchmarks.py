"""The sixteen benchmarks: reading their own files, the traps of each, and rows of scores."""

import base64
import csv
import io
import json
import random
import shutil

import pyarrow.parquet
import pytest
from PIL import Image

from workflow_scripts.benchmarks import UNDERSTANDING
from workflow_scripts.benchmarks.understanding import BENCHMARKS
from workflow_scripts.benchmarks.understanding.base import Question, answer_row, read_questions, score
from workflow_scripts.benchmarks.understanding.make_tiny import MAKERS, main, make
from workflow_scripts.benchmarks.understanding.mme import COGNITION, PERCEPTION
from workflow_scripts.benchmarks.understanding.sources import StoredImage
from workflow_scripts.errors import UserError
from workflow_scripts.records import SCHEMAS

YES, NO = "Yes", "No"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make(tmp_path_factory.mktemp("tiny"), items=12)


def questions_of(tiny, name):
    return read_questions(BENCHMARKS[name], tiny[name])


def made(*facts, options=None):
    """Questions from (id, answer, kind, group, image)."""
    options = {"yes": "yes", "no": "no"} if options is None else options
    return [
        Question(id, "?", (StoredImage(image, None),), (answer,), options, kind, group)
        for id, answer, kind, group, image in facts
    ]


def rows_of(name, questions, raw):
    return [answer_row(BENCHMARKS[name], question, text) for question, text in zip(questions, raw, strict=True)]


def raw_of(name, rows):
    return BENCHMARKS[name].metrics(rows)


@pytest.mark.parametrize("name", MAKERS)
def test_every_benchmark_goes_from_files_to_scores(name, tiny):
    benchmark, questions = BENCHMARKS[name], questions_of(tiny, name)
    for question in questions:
        for image in question.images:
            assert Image.open(io.BytesIO(image.data())).size == (56, 56)
    rows = rows_of(name, questions, [question.answers[0] for question in questions])
    assert set(rows[0]) == set(SCHEMAS["answers"].names)
    scores = score(benchmark, rows)
    assert set(scores[0]) == set(SCHEMAS["benchmark_scores"].names)
    assert [row["variant"] for row in scores[:2]] == ["published", "overall"]
    for row in scores[:2]:
        assert row["score"] == pytest.approx(100) and row["num_unparsed"] == 0 and 0 <= row["chance"] < 60
        assert row["comparable"] is False  # not the whole benchmark

    unreadable = score(benchmark, rows_of(name, questions, [""] * len(questions)))
    assert all(row["score"] == 0 and row["num_unparsed"] == row["num_items"] for row in unreadable)


def test_the_facts_are_the_protocol_s():
    sizes = {"pope": 9000, "hallusionbench": 951, "amber": 14216, "mme": 2374, "mmbench_en": 1164, "mmbench_cn": 1164,
             "scienceqa": 2017, "mmstar": 1500, "ocrbench": 1000, "realworldqa": 765, "mmvp": 300, "cvbench_2d": 1438,
             "cvbench_3d": 1200, "ai2d": 3088, "seedbench_image": 14233, "mmmu": 900}  # fmt: skip
    assert {name: UNDERSTANDING[name].num_items for name in sizes} == sizes
    assert {name for name in sizes if UNDERSTANDING[name].hallucination} == {"pope", "hallusionbench", "amber"}


def test_the_command_makes_all_folders(tmp_path):
    main(["--out", str(tmp_path), "--items", "6"])
    assert {folder.name for folder in tmp_path.iterdir()} == set(BENCHMARKS)


# The traps, one benchmark after the other.


def test_pope_counts_yes_with_punctuation_and_the_share_of_yes_from_the_answers():
    questions = made(*[(str(i), "yes" if i < 2 else "no", "random", None, str(i)) for i in range(4)])
    others = made(("p", "yes", "popular", None, "5"), ("a", "yes", "adversarial", None, "6"))
    rows = rows_of("pope", [*questions, *others], ["Yes.", "Yes", "Yes!", "No, there is not.", YES, YES])
    found = raw_of("pope", rows)
    assert found["published"] == pytest.approx(2 * 4 / (2 * 4 + 1))
    assert found["yes_share"] == pytest.approx(5 / 6)  # of the key it is 4 / 6


def test_pope_is_read_from_the_authors_files_too(tmp_path, tiny):
    (tmp_path / "images").mkdir()
    for number, setting in enumerate(("random", "popular", "adversarial")):
        Image.new("RGB", (8, 8)).save(tmp_path / f"images/{number}.jpg")
        lines = [{"question_id": 1, "image": f"{number}.jpg", "text": "Is there a dog in the image?", "label": "no"}]
        (tmp_path / f"coco_pope_{setting}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    questions = read_questions(BENCHMARKS["pope"], tmp_path)
    assert [question.id for question in questions] == ["random/1", "popular/1", "adversarial/1"]
    assert BENCHMARKS["pope"].prompt(questions[0]) == (
        "<image>\nIs there a dog in the image?\nPlease answer yes or no."
    )
    assert len(questions_of(tiny, "pope")) == 12  # the copies in Full/ are not read again


def test_hallusionbench_groups_by_question_and_by_figure():
    def asked(category, figure, question, answer):
        place = f"{category}/ocr/0"
        image = (StoredImage("x", None),)
        return Question(f"{place}/{figure}/{question}", "?", image, (answer,), {"yes": "yes", "no": "no"},
                        f"{category}/ocr", f"{place}/question {question}", f"{place}/figure {figure}")  # fmt: skip

    questions = [asked("VD", f, q, "yes") for f in (0, 1) for q in (0, 1)]
    questions += [asked("VS", 1, 0, "yes"), asked("VS", 1, 1, "yes")]  # `ocr` of the other category is another group
    found = raw_of("hallusionbench", rows_of("hallusionbench", questions, [YES, YES, YES, NO, YES, NO]))
    assert found["a_acc"] == pytest.approx(4 / 6)
    assert found["q_acc"] == pytest.approx(2 / 4) and found["f_acc"] == pytest.approx(1 / 3)
    assert found["published"] == found["q_acc"]
    assert found["overall"] == pytest.approx((4 / 6 + 2 / 4 + 1 / 3) / 3)


def test_hallusionbench_asks_only_questions_with_an_image(tiny, tmp_path):
    rows = pyarrow.parquet.read_table(tiny["hallusionbench"] / "data/image-00000-of-00001.parquet").to_pylist()
    for row in rows:
        file = tmp_path / row["filename"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(row.pop("image")["bytes"])
    bare = [rows[0] | {"filename": None, "question_id": "9"}]
    (tmp_path / "HallusionBench.json").write_text(json.dumps(rows + bare))
    own, hub = read_questions(BENCHMARKS["hallusionbench"], tmp_path), questions_of(tiny, "hallusionbench")
    assert [(q.id, q.group, q.image_key, q.answers) for q in own] == [
        (q.id, q.group, q.image_key, q.answers) for q in hub
    ]


def test_amber_is_the_mean_of_its_parts_and_f1_of_no():
    questions = made(("1", "no", "existence", None, "1"), ("2", "no", "existence", None, "2"),
                     ("3", "yes", "attribute/state", None, "3"), ("4", "no", "attribute/number", None, "4"),
                     ("5", "yes", "relation", None, "5"))  # fmt: skip
    found = raw_of("amber", rows_of("amber", questions, [NO, NO, NO, NO, YES]))
    assert found["published"] == pytest.approx((1 + 0.5 + 1) / 3) and found["accuracy"] == pytest.approx(4 / 5)
    assert found["overall"] == pytest.approx(2 * 3 / (4 + 3))


def test_amber_leaves_descriptions_out_and_knows_both_names_of_relations(tiny):
    questions = questions_of(tiny, "amber")
    assert len(questions) == 12
    assert {q.kind for q in questions} == {"existence", "attribute/state", "attribute/number", "attribute/action",
                                           "relation"}  # fmt: skip


def test_mme_adds_accuracy_and_accuracy_plus():
    facts = [
        (f"{kind}{i}{answer}", answer, kind, f"{kind}{i}", f"{kind}{i}")
        for kind in PERCEPTION + COGNITION
        for i in range(2)
        for answer in ("yes", "no")
    ]
    questions = made(*facts)
    always_yes = raw_of("mme", rows_of("mme", questions, [YES] * len(questions)))
    assert always_yes["published"] == pytest.approx(14 * 50)  # accuracy 50, accuracy+ 0
    row = score(BENCHMARKS["mme"], rows_of("mme", questions, [YES] * len(questions)))[0]
    assert row["score"] == pytest.approx(700 / 28) and row["chance"] == pytest.approx(37.5)
    one_wrong = rows_of("mme", questions, [q.answers[0] for q in questions])
    one_wrong[0] |= {"answer": "no", "correct": False}
    assert raw_of("mme", one_wrong)["perception"] == pytest.approx(2000 - 25 - 50)


def test_mme_needs_two_questions_an_image(tiny, tmp_path):
    table = pyarrow.parquet.read_table(tiny["mme"] / "data/test-00000-of-00001.parquet")
    (tmp_path / "data").mkdir()
    pyarrow.parquet.write_table(table.slice(0, len(table) - 1), tmp_path / "data/test-0.parquet")
    with pytest.raises(UserError, match=r"image .* of MME has 1 questions, expected 2"):
        read_questions(BENCHMARKS["mme"], tmp_path)


def test_mmbench_wants_every_rotation():
    options = {"A": "red", "B": "blue"}
    questions = made(("7", "A", "k", "7", "x"), ("1000007", "B", "k", "7", "x"),
                     ("8", "B", "k", "8", "y"), ("1000008", "A", "k", "8", "y"), options=options)  # fmt: skip
    found = raw_of("mmbench_en", rows_of("mmbench_en", questions, ["A", "B. blue", "B", "B"]))
    assert found["published"] == pytest.approx(1 / 2) and found["plain_accuracy"] == 1
    always_a = raw_of("mmbench_cn", rows_of("mmbench_cn", questions, ["A"] * 4))
    assert always_a["published"] == 0 and always_a["plain_accuracy"] == 0.5


def test_mmbench_reads_parquet_and_vlmevalkit_s_table_alike(tiny, tmp_path):
    from_hub = questions_of(tiny, "mmbench_en")
    assert len(from_hub) == 36 and {q.group for q in from_hub} == {str(i) for i in range(12)}
    assert "One square is shown." in from_hub[2].text and not from_hub[0].text.startswith("nan")
    assert [len(q.options) for q in from_hub[:9]] == [2, 2, 3, 3, 3, 4, 4, 4, 4]
    rows = pyarrow.parquet.read_table(tiny["mmbench_en"] / "en/dev-00000-of-00001.parquet").to_pylist()
    with (tmp_path / "MMBench_DEV_EN.tsv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t")
        writer.writeheader()
        for row in rows:
            row = {name: "" if value == "nan" else value for name, value in row.items()}
            first = str(int(row["index"]) % 1_000_000)  # a rotation names the row that has the image
            encoded = base64.b64encode(row["image"]["bytes"]).decode()
            writer.writerow(row | {"image": encoded if row["index"] == first else first})
    assert [(q.id, q.text, q.options, q.answers, q.image_key, q.group) for q in from_hub] == [
        (q.id, q.text, q.options, q.answers, q.image_key, q.group)
        for q in read_questions(BENCHMARKS["mmbench_en"], tmp_path)
    ]


def test_scienceqa_asks_only_questions_with_an_image(tiny):
    assert len(questions_of(tiny, "scienceqa")) == 12  # the file has 13
    assert {len(q.options) for q in questions_of(tiny, "scienceqa")} == {2, 3, 4, 5}
    assert "1/39" in BENCHMARKS["scienceqa"].caution


def test_mmstar_has_three_ways_to_average(tiny):
    questions = questions_of(tiny, "mmstar")
    assert all(list(q.options) == list("ABCD") and all(q.options.values()) for q in questions)
    facts = [("1", "A", "math/x", None, "1"), ("2", "A", "math/x", None, "2"), ("3", "A", "math/y", None, "3"),
             ("4", "A", "logic/z", None, "4")]  # fmt: skip
    asked = made(*facts, options={"A": "", "B": ""})
    found = raw_of("mmstar", rows_of("mmstar", asked, ["A", "A", "B", "A"]))
    assert found["published"] == pytest.approx(3 / 4)
    assert found["mean_of_abilities"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["mean_of_details"] == pytest.approx((1 + 0 + 1) / 3)


@pytest.mark.parametrize(
    ("kind", "accepted", "raw", "hit"),
    [
        ("Scene Text-centric VQA/x", "STOP", "It says stop.", True),
        ("Scene Text-centric VQA/x", "two words", "two\nwords", True),
        ("Scene Text-centric VQA/x", "two words", "twowords", False),
        ("Scene Text-centric VQA/x", "STOP", "shop", False),
        ("Handwritten Mathematical Expression Recognition/HME100k", "x ^ 2 + Y", "x^2+Y", True),
        ("Handwritten Mathematical Expression Recognition/HME100k", "x ^ 2 + Y", "x^2+y", False),
        ("Scene Text-centric VQA/x", "STOP", "", False),
    ],
)
def test_ocrbench_looks_for_a_part(kind, accepted, raw, hit):
    image = (StoredImage("x", None),)
    row = answer_row(BENCHMARKS["ocrbench"], Question("1", "?", image, ("no such text", accepted), kind=kind), raw)
    assert row["correct"] is hit
    assert json.loads(row["expected"]) == ["no such text", accepted]


@pytest.mark.parametrize(
    ("answer", "raw", "right"),
    [("2", "Two.", True), ("2", "2", True), ("2", "22", False), ("Yes", "yes", True), ("Left", "The left.", True),
     ("B", "B. blue", True), ("B", "blue", True), ("B", "A", False)],
)  # fmt: skip
def test_realworldqa_takes_a_letter_or_the_exact_text(answer, raw, right):
    options = {"A": "red", "B": "blue"} if answer == "B" else {}
    question = Question("1", "?", (StoredImage("x", None),), (answer,), options)
    assert answer_row(BENCHMARKS["realworldqa"], question, raw)["correct"] is right


def test_mmvp_per_question_per_pair_and_with_the_corrected_key():
    options = {"A": "long", "B": "short"}
    questions = made(("1", "A", "", "pair 1", "1"), ("2", "B", "", "pair 1", "2"), ("99", "A", "", "pair 50", "99"),
                     ("100", "B", "", "pair 50", "100"), options=options)  # fmt: skip
    found = raw_of("mmvp", rows_of("mmvp", questions, ["A", "A", "(b)", "(a)"]))
    assert found == {"published": 0.25, "overall": 0.0, "corrected": 0.5, "corrected_accuracy": 0.75}
    unread = raw_of("mmvp", rows_of("mmvp", questions, ["A", "B", "?", "?"]))
    assert unread["corrected"] == 0.5 and unread["corrected_accuracy"] == 0.5  # what is not read stays wrong


def test_mmvp_refuses_a_mended_key(tmp_path):
    MAKERS["mmvp"](tmp_path, 150, random.Random(0))
    questions = read_questions(BENCHMARKS["mmvp"], tmp_path)
    assert len(questions) == 300 and questions[99].group == "pair 50" and questions[98].answers == ("A",)
    text = (tmp_path / "Questions.csv").read_text().splitlines()
    text[99] = text[99].removesuffix("(a)") + "(b)"
    (tmp_path / "Questions.csv").write_text("\n".join(text) + "\n")
    with pytest.raises(UserError, match="question 99 has the answer B, published is A: this key has been mended"):
        read_questions(BENCHMARKS["mmvp"], tmp_path)


def test_cvbench_2d_is_the_mean_of_its_sources():
    questions = made(("1", "A", "ADE20K/Count", None, "1"), ("2", "A", "COCO/Count", None, "2"),
                     ("3", "A", "COCO/Count", None, "3"), ("4", "A", "COCO/Relation", None, "4"),
                     options={"A": "1", "B": "2"})  # fmt: skip
    found = raw_of("cvbench_2d", rows_of("cvbench_2d", questions, ["B", "A", "A", "(A)"]))
    assert found["published"] == 0.5 and found["accuracy"] == 0.75
    with pytest.raises(UserError, match="no answer of kind 'ADE20K'"):
        raw_of("cvbench_2d", rows_of("cvbench_2d", questions[1:], ["A"] * 3))


def test_ai2d_says_which_version_it_is(tiny):
    assert BENCHMARKS["ai2d"].published.metric == "accuracy, labels masked"
    questions = questions_of(tiny, "ai2d")
    assert len({q.image_key for q in questions}) < len(questions)  # several questions a diagram: clusters


def test_seedbench_leaves_videos_out(tiny):
    questions = questions_of(tiny, "seedbench_image")
    assert len(questions) == 12 and all(len(q.images) == 1 for q in questions)  # the file has 13 rows


def test_mmmu_has_dev_and_validation_open_questions_and_several_images(tiny):
    questions = questions_of(tiny, "mmmu")
    assert {q.kind.split("/")[0] for q in questions} == {"dev", "validation"}
    two = next(q for q in questions if len(q.images) == 2)
    assert BENCHMARKS["mmmu"].prompt(two).count("<image>") == 2 and "<image 2>" not in BENCHMARKS["mmmu"].prompt(two)
    rows = rows_of("mmmu", questions, ["" if q.kind.startswith("dev") else q.answers[0] for q in questions])
    published, overall = score(BENCHMARKS["mmmu"], rows)
    assert overall["score"] == 100 and published["score"] < 100
    assert (published["num_items"], overall["num_items"]) == (12, 10)


@pytest.mark.parametrize(
    ("accepted", "raw", "right"),
    [
        (("3.50",), "The answer is 3.5.", True),
        (("3.50",), "3.49999", True),
        (("3.50",), "13.50", False),
        (("1,200",), "so the total is 1200 dollars", True),
        (("red", "crimson"), "It is a Crimson one", True),
        (("B",), "vitamin B", True),
        (("b",), "cab", False),
        (("red",), "It is blue", False),
    ],
)
def test_mmmu_matches_open_answers_by_number_or_part(accepted, raw, right):
    question = Question("validation_Math_1", "?", (StoredImage("x", None),), accepted, kind="validation/Math")
    assert answer_row(BENCHMARKS["mmmu"], question, raw)["correct"] is right


def test_mmmu_draws_no_letter_where_there_is_none():
    question = made(("validation_Math_1", "A", "validation/Math", None, "x"), options={"A": "1", "B": "2"})[0]
    row = answer_row(BENCHMARKS["mmmu"], question, "It depends.")
    assert row["answer"] is None and row["extraction"] is None and row["correct"] is False


# What is refused.


def test_a_failed_request_is_no_wrong_answer(tiny):
    questions = questions_of(tiny, "ai2d")
    rows = rows_of("ai2d", questions, ["A"] * 12)
    rows[3] |= {"raw_answer": None}
    with pytest.raises(UserError, match=r"ai2d: 1 of 12 questions have no answer \('3' is the first\)"):
        score(BENCHMARKS["ai2d"], rows)
    rows[3] |= {"raw_answer": "A"}
    with pytest.raises(UserError, match="question '0' is answered more than once"):
        score(BENCHMARKS["ai2d"], [*rows, rows[0]])
    with pytest.raises(UserError, match="no answers to score"):
        score(BENCHMARKS["ai2d"], [])


def test_a_whole_benchmark_is_comparable_unless_the_paper_s_part_is_unknown():
    questions = made(*[(str(i), "A", "", None, str(i)) for i in range(3088)], options={"A": "x", "B": "y"})
    rows = rows_of("ai2d", questions, ["A"] * 3088)
    assert all(row["comparable"] for row in score(BENCHMARKS["ai2d"], rows))
    asked = made(*[(str(i), "A", "natural science/x", None, str(i)) for i in range(2015)],
                 ("s", "A", "social science/x", None, "s"), ("l", "A", "language science/x", None, "l"),
                 options={"A": "x", "B": "y"})  # fmt: skip
    flags = [row["comparable"] for row in score(BENCHMARKS["scienceqa"], rows_of("scienceqa", asked, ["A"] * 2017))]
    assert flags[:2] == [False, True]


@pytest.mark.parametrize("name", MAKERS)
def test_missing_files_are_named(name, tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        read_questions(BENCHMARKS[name], tmp_path)


def test_missing_columns_and_images_are_named(tiny, tmp_path):
    table = pyarrow.parquet.read_table(tiny["ai2d"] / "data/test-00000-of-00001.parquet")
    (tmp_path / "data").mkdir()
    pyarrow.parquet.write_table(table.drop_columns("options"), tmp_path / "data/test-0.parquet")
    with pytest.raises(UserError, match=r"test-0.parquet: no column 'options', it has question"):
        read_questions(BENCHMARKS["ai2d"], tmp_path)
    shutil.copytree(tiny["amber"], tmp_path / "amber")
    (tmp_path / "amber/image/AMBER_2.jpg").unlink()
    with pytest.raises(UserError, match=r"AMBER_2\.jpg: no such image"):
        read_questions(BENCHMARKS["amber"], tmp_path / "amber")


def test_repeated_ids_and_impossible_keys_are_refused(tiny, tmp_path):
    rows = pyarrow.parquet.read_table(tiny["cvbench_3d"] / "test_3d.parquet")
    pyarrow.parquet.write_table(pyarrow.concat_tables([rows, rows]), tmp_path / "test_3d.parquet")
    with pytest.raises(UserError, match="question '0' of CV-Bench 3D occurs more than once"):
        read_questions(BENCHMARKS["cvbench_3d"], tmp_path)
    wrong = rows.set_column(rows.schema.get_field_index("answer"), "answer", pyarrow.array(["(F)"] * len(rows)))
    pyarrow.parquet.write_table(wrong, tmp_path / "test_3d.parquet")
    with pytest.raises(UserError, match=r"the answer \('F',\) is none of \['A', 'B'\]"):
        read_questions(BENCHMARKS["cvbench_3d"], tmp_path)
