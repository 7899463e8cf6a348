"""The report shows what the tables hold, hides nothing, and runs nothing that a caption says."""

import dataclasses
import html.parser
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from report_sweep import CAPTIONERS, write_sweep

from workflow_scripts.analysis import regress
from workflow_scripts.errors import UserError
from workflow_scripts.records import read_table, write_table
from workflow_scripts.report import write
from workflow_scripts.report.cautions import warnings
from workflow_scripts.report.curves import HEIGHT, WIDTH, training_curves
from workflow_scripts.report.estimates import named_variants
from workflow_scripts.report.examples import examples, spread
from workflow_scripts.report.gather import gather
from workflow_scripts.report.pictures import generated
from workflow_scripts.report.provenance import provenance
from workflow_scripts.report.scores import score_tables
from workflow_scripts.report.sweep import read_sweep

VOID = {"meta", "img", "br", "link", "input"}
ATTACK = "<script>window.pwned = 1</script><img src=x onerror=alert(1)> \"'&amp; {{ 7 * 7 }}"


class Page(html.parser.HTMLParser):
    """Tags as (name, attributes, names of the ancestors' classes), all text, and tables as rows of cell texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags, self.text, self.tables, self._open = [], [], [], []
        self.feed(text)
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes, [a.get("class") or "" for _, a in self._open]))
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self._open.append((tag, attributes))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs), []))

    def handle_endtag(self, tag):
        assert self._open[-1][0] == tag, f"</{tag}> closes {self._open[-1]}"
        self._open.pop()

    def handle_data(self, data):
        self.text.append(data)
        if any(tag in ("th", "td") for tag, _ in self._open):
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(settings, results folder) of a sweep without faults."""
    results = tmp_path_factory.mktemp("sweep")
    return write_sweep(results), results


@pytest.fixture
def copied(made, tmp_path):
    """A copy of it to spoil."""
    shutil.copytree(made[1], tmp_path / "sweep")
    for record in (tmp_path / "sweep/capeval").rglob("verdicts.parquet.run.json"):
        record.write_text(record.read_text().replace(str(made[1]), str(tmp_path / "sweep")))
    return made[0], tmp_path / "sweep"


def render(job, results) -> str:
    sweep = read_sweep(job, results, None)
    return write.render(gather(sweep, results / "figures") | {"code": "test"})


def change(path, name, edit) -> None:
    """Rewrite a table with `edit(frame)` applied."""
    frame = read_table(path, name)
    edit(frame)
    write_table(path, frame, name)


@pytest.fixture(scope="module")
def page(made) -> Page:
    return Page(render(*made))


def test_page_needs_nothing_from_elsewhere(page):
    for tag, attributes, _ in page.tags:
        assert tag not in ("script", "link", "iframe", "object", "embed", "base", "form")
        for key in ("src", "href", "srcset", "data", "poster"):
            value = attributes.get(key)
            assert value is None or value.startswith("#" if key == "href" else "data:"), (tag, value[:60])
    policy = [a["content"] for tag, a, _ in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_page_is_accessible(page):
    targets = {a["id"] for _, a, _ in page.tags if "id" in a}
    for tag, attributes, ancestors in page.tags:
        if tag == "img":
            assert attributes["alt"]
        if tag == "th":
            assert attributes["scope"] in ("col", "row", "rowgroup")
        if tag == "table":
            assert any("scroll" in classes.split() for classes in ancestors), "a wide table must scroll in its own box"
        if tag == "a":
            assert attributes["href"][1:] in targets


def test_key_table_equals_the_tables(made, page):
    _, results = made
    head, *rows = page.tables[0]
    assert [row[0] for row in rows] and len(rows) == len(CAPTIONERS)
    capeval = pd.read_csv(results / "capeval.csv").query("group_kind == 'overall'").set_index("captioner")
    scores = pd.read_csv(results / "scores.csv").query("variant.isna()")
    scores = scores.groupby(["captioner", "pipeline"]).score.mean().unstack()
    labels = {label: name for name, (label, *_) in CAPTIONERS.items()}
    expected = {"Ccoverage": capeval.C, "Pprecision": capeval.P}
    expected |= {("G" if p in ("sd3", "qwen-image") else "U") + p: scores[p] for p in scores}
    assert set(head[2:]) == set(expected)
    for row in rows:
        for title, cell in zip(head[2:], row[2:], strict=True):
            value = expected[title][labels[row[0]]]
            assert cell.startswith(f"{value:.1f}")
            if title == "Ccoverage":
                low, high = capeval.loc[labels[row[0]], ["C_low", "C_high"]]
                assert cell.endswith(f"[{low:.1f}, {high:.1f}]")
    first = [float(row[4]) + float(row[5]) for row in rows]
    assert first == sorted(first, reverse=True)


def test_best_of_each_column_is_marked(made):
    sweep = read_sweep(*made, None)
    columns = gather(sweep, made[1] / "figures")["key"]["rows"]
    for place in range(6):
        cells = [row["cells"][place] for row in columns]
        top = max(cell["value"] for cell in cells)
        assert all(cell["best"] == (cell["value"] == top) for cell in cells)


def test_category_tables_equal_the_scores(made, page):
    tables = [table for table in page.tables if table[0] == ["Captioner", "color", "position"]]
    scores = read_table(made[1] / "scores.csv", "scores").query("objective == 'generation'")
    assert len(tables) == len(scores[["pipeline", "benchmark"]].drop_duplicates())
    of_first = scores[(scores.pipeline == "sd3") & (scores.benchmark == scores.benchmark.iloc[0])]
    values = of_first.dropna(subset="variant").set_index(["captioner", "variant"]).score
    labels = {label: name for name, (label, *_) in CAPTIONERS.items()}
    *rows, items = tables[0][1:]
    assert len(rows) == len(CAPTIONERS) and items == ["Items", "240", "240"]
    for label, color, position in rows:
        assert color == f"{values[labels[label], 'color']:.1f}± 3.0"
        assert position == f"{values[labels[label], 'position']:.1f}"  # one prompt: no standard error


def test_regression_table_equals_regression_csv(made, page):
    table = next(t for t in page.tables if t[0][:2] == ["Outcome", "Term"] and "p Holm" in t[0])
    regression = pd.read_csv(made[1] / "regression.csv").set_index(["outcome", "spec", "term"])
    robust = regression.loc[("sd3", "robust", "P")]
    start = next(n for n, row in enumerate(table) if row[0].startswith("sd3"))
    assert table[start + 1][0] == "precision P"
    cells = [cell.replace("−", "-") for cell in table[start + 1]]
    assert cells[1] == f"{robust.estimate:+.3f}"
    assert cells[4] == f"[{robust.conf_low:+.3f}, {robust.conf_high:+.3f}]"
    assert cells[6] == f"{robust.p_value_wild:.3f}"


def test_only_intervals_without_zero_are_bold(made):
    job, results = made
    groups = gather(read_sweep(job, results, None), results / "figures")["estimates"]
    cells = [term[kind] for group in groups for term in group["terms"] for kind in ("published", "robust")]
    for cell in cells:
        low, high = cell["bounds"]
        assert cell["excludes_zero"] == (low * high > 0)


def test_intervals_that_hold_zero_are_not_bold(copied):
    job, results = copied
    change(results / "regression.csv", "regression", lambda t: t.__setitem__("conf_low", -9.0))
    change(results / "regression.csv", "regression", lambda t: t.__setitem__("conf_high", 9.0))
    bold = [a for _, a, _ in Page(render(job, results)).tags if "excludes-zero" in (a.get("class") or "")]
    assert not bold


def test_caption_text_is_inert(copied):
    job, results = copied
    image = "B000.png"

    def attack(frame):
        frame.loc[frame.image_id == image, "caption"] = ATTACK

    change(results / "capeval/exact/captions.parquet", "captions", attack)
    change(results / "captioners.csv", "captioners", lambda t: t.__setitem__("label", t.label + ATTACK))
    lines = (results / "world/capeval/checklist.jsonl").read_text().split("\n")
    row = json.loads(lines[0])
    row["image_checklist"][0]["Question"] = ATTACK
    (results / "world/capeval/checklist.jsonl").write_text("\n".join([json.dumps(row), *lines[1:]]))
    page = Page(render(job, results))
    assert "".join(page.text).count(ATTACK) > len(CAPTIONERS) + 2
    for tag, attributes, _ in page.tags:
        assert tag != "script" and not any(key.startswith("on") for key in attributes)
        assert tag != "img" or attributes["src"].startswith("data:")


def test_long_captions_are_whole_behind_a_fold(copied):
    job, results = copied
    caption = " ".join(f"word{n}" for n in range(300))
    change(results / "capeval/exact/captions.parquet", "captions", lambda t: t.__setitem__("caption", caption))
    page = Page(render(job, results))
    assert "".join(page.text).count(caption) == job.num_examples


def test_clean_sweep_has_no_warnings(made, page):
    assert warnings(read_sweep(*made, None)) == []
    assert "No warnings" in "".join(page.text)


FAULTS = {
    "unjudged": ("capeval.csv", "capeval", "num_unjudged", 7, "Unjudged checklist items", "7 of"),
    "unparsed": ("scores.csv", "scores", "num_unparsed", 24, "Answers that could not be read", "24 of 240 (10.0%)"),
    "incomparable": (
        "scores.csv",
        "scores",
        "comparable",
        False,
        "Scores not comparable with published ones",
        "scored by blocks",
    ),
    "no interval": ("capeval.csv", "capeval", "C_low", None, "No intervals of C and P", "Exact"),
    "chance unknown": (
        "scores.csv",
        "scores",
        "chance",
        None,
        "Chance level or number of questions unknown",
        "80 of 80",
    ),
    "error": (
        "captions/late/statistics.csv",
        "caption_statistics",
        "num_failed",
        3,
        "Captions of the pool",
        "Late: 3 failed, of 100",
    ),
    "cut": (
        "captions/late/statistics.csv",
        "caption_statistics",
        "num_cut",
        5,
        "Captions of the pool",
        "5 cut at the token limit",
    ),
    "cut on capeval": (
        "capeval/late/captions.parquet",
        "captions",
        "error",
        "cut",
        "Captions of CAPEval's images",
        "Late: 12 cut at the token limit, of 12",
    ),
    "no p-value": ("regression.csv", "regression", "p_value", None, "Slopes without robust inference", "sd3: P"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_told(copied, fault):
    job, results = copied
    path, table, column, value, title, text = FAULTS[fault]
    change(results / path, table, lambda frame: frame.__setitem__(column, value))
    found = {warning["title"]: warning["items"] for warning in warnings(read_sweep(job, results, None))}
    assert list(found) == [title]
    assert any(text in item for item in found[title])


def test_figures_of_lmms_eval_that_differ_from_ours_are_told(copied):
    job, results = copied
    scores = read_table(results / "scores.csv", "scores")
    own = scores[scores.objective == "understanding"].assign(variant=f"lmms-eval: {job.analysis.variant}")
    own.loc[own.benchmark == "exist", "metric"] = "another"  # which does not compare
    told = own.benchmark.isin(["exist", "count"]) & (own.captioner == "late")
    own.loc[told, "score"] += 1
    own.loc[~told, "score"] += 0.001  # rounding
    write_table(results / "scores.csv", pd.concat([scores, own]), "scores")
    (warning,) = warnings(read_sweep(job, results, None))
    assert warning["title"] == "Scores that lmms-eval's own rules give otherwise"
    assert [item.split(": Late")[0] for item in warning["items"]] == ["clip-llama, count", "siglip-qwen3, count"]


def test_page_shows_warnings(copied):
    job, results = copied
    for fault in ("unjudged", "unparsed", "incomparable"):
        path, table, column, value, _, _ = FAULTS[fault]
        change(results / path, table, lambda frame, column=column, value=value: frame.__setitem__(column, value))
    page = Page(render(job, results))
    text = "".join(page.text)
    assert "3 kinds of warnings" in text and "No warnings" not in text
    for fault in ("unjudged", "unparsed", "incomparable"):
        title, told = FAULTS[fault][4:]
        assert title in text and told in text
    badges = [attributes for _, attributes, _ in page.tags if attributes.get("class") == "badge"]
    assert len(badges) == 2 * 3 + 2 * 2, "one at every benchmark's column"


def test_samples_cut_in_training_are_told(copied):
    job, results = copied
    path = results / "understanding/clip-llama/seed-0/warm/model.json.run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_cut_samples": 2000, "num_unlearnt_samples": 1}))
    (warning,) = warnings(read_sweep(job, results, None))
    assert warning["items"] == ["clip-llama, seed 0, Warm: 2,000 samples, 1 of them before any answer"]


def leave_out(results: Path, pipeline: str, own: dict[str, int], alone: dict[str, int], num_any: int) -> None:
    """Let captioners' faults leave images out of one pipeline's training."""

    def changed(table: pd.DataFrame) -> None:
        rows = table.pipeline == pipeline
        for column, numbers in (("num_too_long", own), ("num_own", own), ("num_alone", alone)):
            table.loc[rows, column] = table[rows].captioner.map(numbers).fillna(0)
        table.loc[rows, "num_any"] = num_any

    change(results / "selection/intersection/counts.csv", "selection_counts", changed)


def test_images_left_out_of_training_are_told(copied):
    job, results = copied
    leave_out(results, "clip-llama", {"warm": 40, "late": 3}, {"warm": 38, "late": 1}, 41)
    leave_out(results, "sd3", {"late": 2}, {"late": 2}, 2)
    told = {warning["title"]: warning["items"] for warning in warnings(read_sweep(job, results, None))}
    assert told == {
        "Images left out of training for all captioners": [
            "clip-llama: 41 of 100 (41.0%), the most of them for Warm (40)",
            "sd3: 2 of 100 (2.0%), the most of them for Late (2)",
        ],
        "A captioner that costs the others many images": ["clip-llama, Warm: 38 of 100 (38.0%)"],
    }
    text = " ".join("".join(Page(render(job, results)).text).split())
    assert "40 (38)" in text and "3 (1)" in text and "Every captioner's models are trained on the same images" in text
    own = job.model_copy(update={"train_on": "own"})
    told = {warning["title"]: warning["items"] for warning in warnings(read_sweep(own, results, None))}
    assert told == {
        "Images left out of training, captioner by captioner": [
            "clip-llama, Late: 3 of 100 (3.0%)",
            "clip-llama, Warm: 40 of 100 (40.0%)",
            "sd3, Late: 2 of 100 (2.0%)",
        ]
    }


def test_models_trained_on_other_images_are_told(copied):
    job, results = copied
    path = results / "selection/apart.csv"
    change(path, "selections_apart", lambda table: table.__setitem__("num_apart", [3] + [0] * (len(table) - 1)))
    change(path, "selections_apart", lambda table: table.__setitem__("share_apart", table.num_apart / 4000))
    (warning,) = warnings(read_sweep(job, results, None))
    assert warning["items"] == ["clip-llama, seed 0, Exact: 3 (0.07%)"]


def test_conversations_left_out_are_told(copied):
    job, results = copied
    path = results / "conversations/instruct/index.parquet.run.json"
    left_out = {"missing": 355, "not_an_image": 2}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_left_out": left_out}))
    (warning,) = warnings(read_sweep(job, results, None))
    assert warning["title"] == "Conversations left out of training"
    assert warning["items"] == [
        "instruct: 355 missing, 2 not an image, of 1,000; all in conversations/instruct/left_out.csv"
    ]


@pytest.mark.parametrize(
    ("right", "of", "chance"), [(63, 240, 25), (71, 240, 25), (80, 240, 25), (26, 48, 50), (32, 48, 50)]
)
def test_chance_level_agrees_with_the_exact_binomial_test(made, right, of, chance):
    from scipy.stats import binomtest

    sweep = read_sweep(*made, None)
    scores = sweep.scores.head(1).assign(score=100 * right / of, num_items=of, chance=float(chance))
    titles = [w["title"] for w in warnings(dataclasses.replace(sweep, scores=scores))]
    above = binomtest(right, of, chance / 100, alternative="greater").pvalue < 0.05
    assert ("Models at chance level" in titles) != above


def test_examples_show_the_verdicts_of_the_table(made):
    job, results = made
    shown = examples(read_sweep(job, results, None))
    assert [example["name"] for example in shown] == ["B000.png", "B006.png"]
    sweep = read_sweep(job, results, None)
    for place, captioner in enumerate(sweep.captioners):
        table = read_table(results / f"capeval/{captioner}/verdicts.parquet", "verdicts")
        of_image = table[table.image_id == "B006.png"].sort_values("item_index").verdict
        assert [item["verdicts"][place] for item in shown[1]["items"]] == list(of_image)
        counts = of_image.value_counts().to_dict()
        assert {k: n for k, n in shown[1]["captions"][place]["counts"].items() if n} == counts


def test_missing_verdict_stops(copied):
    job, results = copied
    path = results / "capeval/brief/verdicts.parquet"
    table = read_table(path, "verdicts")
    write_table(path, table[(table.image_id != "B000.png") | (table.item_index != 2)], "verdicts")
    with pytest.raises(UserError, match=r"brief/verdicts.parquet: no verdict on B000.png, items \[2\]"):
        examples(read_sweep(job, results, None))


def test_spread_is_even():
    assert spread(list(range(300)), 4) == [0, 75, 150, 225]
    assert spread(["a", "b"], 4) == ["a", "b"]
    assert spread([], 4) == []


def test_pictures_of_a_row_share_prompt_and_noise(copied):
    job, results = copied
    groups = generated(read_sweep(job, results, None))
    assert [row["benchmark"] for row in groups[0]["rows"]] == ["attributes", "attributes", "counting"]
    assert all(len(row["cells"]) == len(CAPTIONERS) for group in groups for row in group["rows"])
    assert all(group["same_noise"] for group in groups)
    path = results / "generation/sd3/seed-0/warm/counting/pictures.parquet"
    change(path, "pictures", lambda t: t.__setitem__("noise_seed", t.noise_seed + 1))
    groups = generated(read_sweep(job, results, None))
    assert [group["same_noise"] for group in groups] == [False, True]
    write_table(path, read_table(path, "pictures").iloc[1:], "pictures")
    with pytest.raises(UserError, match=r"no picture of prompt 'p0' in .*warm/counting"):
        generated(read_sweep(job, results, None))


def test_curves_stay_in_their_box_and_tell_the_last_loss(made):
    job, results = made
    tables = training_curves(read_sweep(job, results, None))
    assert [table["rows"][0]["label"] == "Stage 1, shared" for table in tables] == [True, True, False, False]
    for row in (row for table in tables for row in table["rows"]):
        for cell in row["cells"]:
            points = [tuple(map(float, point.split(","))) for line in cell["lines"] for point in line.split()]
            assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
            if cell["title"] == "Loss":
                assert points[0][1] < points[-1][1], "the loss falls, so the line goes down the page"
    late = next(row for row in tables[3]["rows"] if row["label"] == "Late")
    says = {cell["title"]: cell["says"] for cell in late["cells"]}
    losses = pd.read_csv(results / "generation/qwen-image/seed-0/late/training.csv").loss
    assert says["Loss"] == f"{losses.iloc[0]:.3g} to {losses.iloc[-1]:.3g}"
    assert late["steps"] == 100
    assert says["TFLOPS a device"].endswith(", 40 % of peak")
    assert (says["Waiting"], says["Cut"]) == ("1.0 %", "5.0 %")


def test_provenance_is_of_this_sweep_alone(copied):
    job, results = copied
    (results / "logs/plot.tsv").write_text((results / "logs/regress.tsv").read_text())
    other = results / "published"
    other.mkdir()
    record = json.loads((results / "regression.csv.run.json").read_text()) | {"code": "another sweep's"}
    (other / "regression.csv.run.json").write_text(json.dumps(record))
    told = provenance(read_sweep(job, results, None))
    assert "another sweep's" not in dict(told["code"])
    stages = {stage["name"]: stage for stage in told["stages"]}
    assert stages["captions"]["jobs"] == 2 and stages["captions"]["wall"] == pytest.approx(9.2)
    assert stages["captions"]["cpu"] == 9 and stages["regress"]["memory"] == 700.5 * 2**20
    assert stages["figures"]["jobs"] == 1 and "plot" not in stages
    assert told["licences"] == {"Apache-2.0": ["bases/model"]}
    assert stages["regress"]["finished"] and stages["capeval"]["jobs"] is None


def test_published_sweep_leaves_out_what_it_does_not_have(copied):
    job, results = copied
    for folder in ("captions", "world", "understanding", "generation", "pool", "logs"):
        shutil.rmtree(results / folder)
    shutil.rmtree(results / "capeval")
    page = Page(render(job.model_copy(update={"published": True, "world": False}), results))
    ids = {a["id"] for tag, a, _ in page.tags if tag == "section"}
    assert ids == {"captioners", "warnings", "run", "scores", "regression", "sensitivity", "provenance"}
    assert "this sweep takes its scores from published tables" in "".join(page.text)
    assert "blocks world" not in "".join(page.text)


def test_world_says_what_it_cannot_show(page):
    assert "omission is a systematic bias, while random errors average out" in " ".join("".join(page.text).split())


def test_missing_file_stops_and_names_it(copied):
    job, results = copied
    (results / "understanding/clip-llama/seed-0/late/training.csv").unlink()
    with pytest.raises(UserError, match=r"clip-llama/seed-0/late/training\.csv: no such file"):
        render(job, results)


def test_command_writes_page_and_record_and_repeats_itself(made, tmp_path):
    job, results = made
    out = results / "report.html"
    arguments = ["--spec", job.model_dump_json(), "--results", str(results), "--figures", str(results / "figures")]
    write.main([*arguments, "--out", str(out)])
    first = out.read_bytes()
    write.main([*arguments, "--out", str(out)])
    assert out.read_bytes() == first
    record = json.loads((results / "report.html.run.json").read_text())
    assert record["num_bytes"] == len(first) < 5e6
    for file in (out, results / "report.html.run.json"):
        file.unlink()


def test_scores_shown_are_of_the_variant_that_is_explained(copied):
    job, results = copied
    before = [table["rows"] for table in score_tables(read_sweep(job, results, None))]
    single = read_table(results / "scores.csv", "scores")
    counts = single[single.benchmark == "count"]
    both = pd.concat([
        single[single.benchmark != "count"], counts.assign(variant="published"),
        counts.assign(variant="overall", score=100 - counts.score),
    ])  # fmt: skip
    write_table(results / "scores.csv", both, "scores")
    files = {name: results / f"{name}.csv" for name in ("capeval", "scores", "captioners", "regression")}
    files |= {name: results / f"regression_{name}.csv" for name in ("models", "influence", "sensitivity")}
    files["summary"] = results / "summary.json"
    options = [str(part) for name, path in files.items() for part in (f"--{name}", path)]
    regress.main(["--spec", job.analysis.model_dump_json(), *options])

    sweep = read_sweep(job, results, None)
    assert [table["rows"] for table in score_tables(sweep)] == before
    found = named_variants(sweep)
    assert found["specs"][-2:] == ["variant_overall", "simex"]
    cells = {row["outcome"]: row["cells"][-2] for row in found["rows"]}
    assert cells["clip-llama"] and cells["hallucination"] is None, "existence has one figure"
    assert "their own headline" in render(job, results)


def rows_under(page, *heads):
    """The rows, without the head, of the one table whose head has these cells."""
    (found,) = [table[1:] for table in page.tables if set(heads) <= set(table[0])]
    return found


def test_statistics_and_limits_of_captions_are_shown(copied):
    job, results = copied
    path = results / "captions/late/statistics.csv"
    changes = {"num_usable": 90, "num_refusal": 7, "num_cut": 3, "num_asked_again": 12, "share_at_limit": 0.034,
               "words_p50": 8, "words_p95": 31.6, "tokens_p50": None, "tokens_p95": None, "tokens_max": None,
               "distinct_words": 1234, "repetition": 0.25}  # fmt: skip
    change(path, "caption_statistics", lambda t: [t.__setitem__(c, value) for c, value in changes.items()])
    change(
        results / "captions/late/limits.csv", "caption_limits", lambda t: t.__setitem__("share_over", [0.5, 1, None])
    )
    left_out = [
        {"source": "coco", "path": f"{n}.jpg", "reason": "duplicate", "detail": "of 0.jpg"} for n in range(1200)
    ]
    left_out.append({"source": "sam", "path": "z.jpg", "reason": "too_large", "detail": None})
    write_table(results / "pool/left_out.csv", left_out, "left_out")
    page = Page(render(job, results))
    late = next(row for row in rows_under(page, "Captioner", "Faulty") if row[0] == "Late")
    assert late == ["Late", "90", "10", "12", "3.4 %", "8 / 32", "– / – / –", "1,234", "25.0 %"]
    limits = rows_under(page, "CLIP-Lsd3, 77")
    assert ["Late", "50.0 %", "100.0 %", "–"] in limits and ["Exact", "0.0 %", "1.0 %", "2.0 %"] in limits
    assert rows_under(page, "Source", "Reason") == [
        ["coco", "duplicate", "1,200", "0.jpgof 0.jpg"],
        ["sam", "too large", "1", "z.jpg"],
    ]


def test_figure_of_faults_is_shown_where_there_are_any(copied):
    job, results = copied
    name = "Bars of the share of images without a sound caption"
    assert name not in render(job, results)
    change(results / "captions/late/statistics.csv", "caption_statistics", lambda t: t.__setitem__("num_echo", 1))
    assert name in render(job, results)


def test_baselines_stand_beside_the_captioners(copied):
    job, results = copied
    path = results / "capeval_baselines.csv"
    change(path, "capeval", lambda t: t.__setitem__("C", [98.04, 7.25, 1.0]))
    change(path, "capeval", lambda t: t.__setitem__("P", [99.0, 30.0, None]))
    rows = rows_under(Page(render(job, results)), "Captions by", "Unjudged items")
    coverage = read_table(results / "capeval.csv", "capeval").query("group_kind == 'overall'").C
    shown = [float(row[1].split("[")[0]) for row in rows]
    assert shown == [*coverage.sort_values(ascending=False).round(1), 98.0, 7.2, 1.0]
    assert [row[2].split("[")[0] for row in rows[-3:]] == ["99.0", "30.0", "–"]


def with_model_judge(results, canaries, reliability):
    """Let a model be the judge."""
    for path in (results / "capeval").glob("*/verdicts.parquet.run.json"):
        record = json.loads(path.read_text())
        record["spec"]["engine"] |= {"engine": "server", "server_model": "Judge-72B"}
        path.write_text(json.dumps(record))
    write_table(results / "capeval/canaries.csv", canaries, "canaries")
    write_table(results / "reliability.csv", reliability, "reliability")


def canary(number, kind, agrees):
    return {
        "judge": "Judge-72B",
        "canary": "kitchen",
        "item_index": number,
        "kind": kind,
        "question": f"Q{number}?",
        "expected": "yes",
        "verdict": "yes" if agrees else "not_mentioned",
        "reasoning": None,
        "agrees": agrees,
    }


def test_reliability_of_a_model_judge_is_shown(copied):
    job, results = copied
    canaries = [canary(n, "stated" if n < 15 else "injection", n != 3) for n in range(20)]
    one = {"captioner": "late", "kind": "orders", "num_items": 4321, "num_unjudged": 5, "agreement": 0.913,
           "kappa": 0.8, "kappa_low": 0.75, "kappa_high": 0.85}  # fmt: skip
    other = one | {"captioner": "human", "kind": "retest", "kappa": None, "kappa_low": None, "kappa_high": None}
    with_model_judge(results, canaries, [one, other])
    page = Page(render(job, results))
    text = " ".join("".join(page.text).split())
    assert "Judge-72B was asked 20 questions whose answers are known" in text
    assert "it was right on 19 (stated 14 of 15, injection 5 of 5)" in text
    assert [row[0] for row in rows_under(page, "Question", "Expected")] == ["Q3?"]
    assert rows_under(page, "Captions by", "Kappa") == [
        ["Against the same items in another order"],
        ["Late", "4,321", "91.3 %", "0.80[0.75, 0.85]", "5"],
        ["Against asked again with another seed"],
        ["People", "4,321", "91.3 %", "––", "5"],
    ]
    assert warnings(read_sweep(job, results, None)) == [], "19 of 20 is enough"


def test_a_judge_that_errs_and_captions_that_talk_to_it_are_warned_of(copied):
    job, results = copied
    with_model_judge(results, [canary(n, "stated", n % 5 > 0) for n in range(20)], [])
    flags = [{"image_id": "B1.png", "kind": "verdict_demand", "excerpt": ATTACK}] * 2
    write_table(results / "capeval/warm/flagged.csv", flags, "flagged")
    found = {warning["title"]: warning["items"] for warning in warnings(read_sweep(job, results, None))}
    assert found["Questions with known answers"] == ["Judge-72B: right on 16 of 20 (80.0%)"]
    (told,) = found["Captions that may be talking to the judge"]
    assert told.startswith("Warm: 1 captions (2 verdict demand), such as")
    html = render(job, results)
    assert "<script" not in html and "&lt;script&gt;window.pwned" in html


def test_dimensions_are_those_of_capeval_csv(made, page):
    table = read_table(made[1] / "capeval.csv", "capeval").query("group_kind == 'dimension'")
    head, *rows = next(table for table in page.tables if "instancemissed, wrong" in table[0])
    values = table.set_index(["captioner", "group"])
    labels = {label: name for name, (label, *_) in CAPTIONERS.items()}
    for row in rows:
        for title, cell in zip(head[1:], row[1:], strict=True):
            of = values.loc[(labels[row[0]], title.removesuffix("missed, wrong"))]
            assert cell == f"{100 - of.C:.0f}{100 - of.P:.0f}"


def test_diagnosis_shows_what_is_above_the_mean_with_examples(made, page):
    table = read_table(made[1] / "capeval/brief/diagnosis.csv", "diagnosis")
    above = table[table.share > table.mean_share]
    text = " ".join("".join(page.text).split())
    first = above.iloc[0]
    assert f"Brief: {first.dimension} {first.fault} {first.share:.0f} %" in text
    shown = above[above.dimension.eq(first.dimension) & above.fault.eq(first.fault)]
    assert len(shown) == 3 and all(question in text for question in shown.question)
    assert "Exact: nothing above the mean" in text
