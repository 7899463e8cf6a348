"""Every table's columns, checked whenever a table is written or read. One row is one fact.

Large tables are Parquet, final ones CSV; the suffix of the path decides.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from workflow_scripts.errors import UserError, nearest
from workflow_scripts.files import atomic

_TEXT, _COUNT, _REAL, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


SCHEMAS: dict[str, pa.Schema] = {
    # The pool in its order: a subset of n images is its first n rows. `image_id` is the sha256 of the image's bytes,
    # `path` is read by `images.read_rgb`, width and height are those of the upright image, `notes` says what reading
    # does to it (`animated,rotated`), null for nothing.
    "images": _schema(index=_COUNT, image_id=_TEXT, source=_TEXT, path=_TEXT, width=_COUNT, height=_COUNT, notes=_TEXT),
    # What the pool's sources hold and the pool does not, with a `reason` that is counted.
    "left_out": _schema(source=_TEXT, path=_TEXT, reason=_TEXT, detail=_TEXT),
    # Work of a pool that is being built. `stamp` is the file's size and time of change; `reason` is null for a usable
    # image; `packed` is where a Parquet file's image was copied to.
    "pool_files": _schema(path=_TEXT, stamp=_TEXT, reason=_TEXT, detail=_TEXT),
    "pool_hashes": _schema(path=_TEXT, image_id=_TEXT, reason=_TEXT, detail=_TEXT),
    "pool_checks": _schema(packed=_TEXT, width=_COUNT, height=_COUNT, notes=_TEXT, reason=_TEXT, detail=_TEXT),
    # A data set of conversations: where row `index` of its JSON file lies (bytes), the paths of its images as
    # `images.read_rgb` reads them, and why it cannot be trained on, null where it can.
    "conversations": _schema(index=_COUNT, offset=_COUNT, length=_COUNT, id=_TEXT, images=pa.list_(_TEXT), fault=_TEXT),
    # What is wrong with them, a row each; `image` is null where it is the text.
    "faulty_samples": _schema(sample=_TEXT, id=_TEXT, image=_TEXT, reason=_TEXT, detail=_TEXT),
    # Work of an index that is being built. `stamp` is the file's size and time of change, null where it cannot be seen;
    # `reason` is null for a sound image.
    "image_checks": _schema(path=_TEXT, stamp=_TEXT, reason=_TEXT, detail=_TEXT),
    # One caption an image; `error` is null for a sound caption and names the fault otherwise.
    "captions": _schema(
        image_id=_TEXT,
        caption=_TEXT,
        num_tokens=_COUNT,
        finish_reason=_TEXT,
        num_attempts=_COUNT,
        error=_TEXT,
    ),
    # One row a captioner. Every image is sound, has one of the faults (`num_empty` to `num_cut`, of spec.CaptionFault)
    # or failed for another reason. Usable ones are sound or have a fault that is let into training; words, tokens (the
    # captioner's own) and repetition are theirs. Shares are 0-1; `share_at_limit` of all images were cut there.
    "caption_statistics": _schema(
        captioner=_TEXT,
        num_images=_COUNT,
        num_usable=_COUNT,
        num_asked_again=_COUNT,
        num_empty=_COUNT,
        num_one_symbol=_COUNT,
        num_repetition=_COUNT,
        num_refusal=_COUNT,
        num_echo=_COUNT,
        num_cut=_COUNT,
        num_failed=_COUNT,
        share_at_limit=_REAL,
        words_mean=_REAL,
        words_p50=_REAL,
        words_p95=_REAL,
        words_max=_COUNT,
        tokens_mean=_REAL,
        tokens_p50=_REAL,
        tokens_p95=_REAL,
        tokens_max=_COUNT,
        distinct_words=_COUNT,
        repetition=_REAL,
    ),
    # Usable captions longer than `limit` tokens of one text encoder of one pipeline.
    "caption_limits": _schema(
        captioner=_TEXT,
        pipeline=_TEXT,
        encoder=_TEXT,
        limit=_COUNT,
        num_captions=_COUNT,
        num_over=_COUNT,
        share_over=_REAL,
    ),
    # Usable captions of `low` to below `high` tokens of that encoder; `pipeline` is null for the captioner's own.
    "caption_lengths": _schema(
        captioner=_TEXT, pipeline=_TEXT, encoder=_TEXT, low=_COUNT, high=_COUNT, num_captions=_COUNT
    ),
    # A caption that stays out of training: `fault` is one of spec.CaptionFault, `failed`, or `too_long` for `pipeline`,
    # which is null where the fault holds for all. At most one row an image and pipeline.
    "unusable": _schema(image_id=_TEXT, pipeline=_TEXT, fault=_TEXT),
    # An image that one pipeline is not trained on, and whose caption is at fault: one row an image and captioner.
    "selection": _schema(image_id=_TEXT, captioner=_TEXT, fault=_TEXT),
    # Of the `num_images` first images of the pool, which a pipeline looks at: those that a captioner's faults leave out
    # (`num_failed` to `num_too_long`, together `num_own`), those that no other captioner's do (`num_alone`), and those
    # that anybody's do (`num_any`).
    "selection_counts": _schema(
        pipeline=_TEXT,
        captioner=_TEXT,
        num_images=_COUNT,
        num_failed=_COUNT,
        num_empty=_COUNT,
        num_one_symbol=_COUNT,
        num_repetition=_COUNT,
        num_refusal=_COUNT,
        num_echo=_COUNT,
        num_cut=_COUNT,
        num_too_long=_COUNT,
        num_own=_COUNT,
        num_alone=_COUNT,
        num_any=_COUNT,
    ),
    # A trained model and the images that the sweep would train it on now: `num_apart` are in only one of the two.
    "selections_apart": _schema(
        pipeline=_TEXT, seed=_COUNT, captioner=_TEXT, num_images=_COUNT, num_apart=_COUNT, share_apart=_REAL
    ),
    # One checklist item of one image; `verdict` is yes, no, not_mentioned or unjudged.
    "verdicts": _schema(
        image_id=_TEXT,
        item_index=_COUNT,
        dimension=_TEXT,
        tags=_TEXT,
        verdict=_TEXT,
        votes=_COUNT,
        reasoning=_TEXT,
        judge=_TEXT,
    ),
    # One judgement of one checklist item; `position` is its place in the order of the vote, `attempt` the one that
    # settled it, 0 where nobody was asked.
    "votes": _schema(
        image_id=_TEXT,
        item_index=_COUNT,
        vote=_COUNT,
        position=_COUNT,
        attempt=_COUNT,
        verdict=_TEXT,
        reasoning=_TEXT,
    ),
    # A caption that may be talking to the judge, and the words that look so.
    "flagged": _schema(image_id=_TEXT, kind=_TEXT, excerpt=_TEXT),
    # One question with a known answer, as the judge decided it.
    "canaries": _schema(
        judge=_TEXT,
        canary=_TEXT,
        item_index=_COUNT,
        kind=_TEXT,
        question=_TEXT,
        expected=_TEXT,
        verdict=_TEXT,
        reasoning=_TEXT,
        agrees=_FLAG,
    ),
    # How far two judgements of the same items agree. `kind` is orders, retest, second_judge or labels. Shares are 0-1;
    # kappa is null where one verdict is all that both gave. `num_unjudged` items lack a verdict on one of the sides.
    "reliability": _schema(
        captioner=_TEXT,
        kind=_TEXT,
        num_items=_COUNT,
        num_unjudged=_COUNT,
        agreement=_REAL,
        kappa=_REAL,
        kappa_low=_REAL,
        kappa_high=_REAL,
    ),
    "confusion": _schema(captioner=_TEXT, kind=_TEXT, verdict=_TEXT, other_verdict=_TEXT, num_items=_COUNT),
    # An example of what a captioner misses or gets wrong in one dimension: `fault` is missed (not_mentioned) or wrong
    # (no). `share` of the dimension's judged items has the fault, `mean_share` over the sweep's captioners; percent.
    # `sentence` of the caption is the one that has most of the question's words.
    "diagnosis": _schema(
        captioner=_TEXT,
        dimension=_TEXT,
        fault=_TEXT,
        share=_REAL,
        mean_share=_REAL,
        example=_COUNT,
        image_id=_TEXT,
        item_index=_COUNT,
        question=_TEXT,
        reasoning=_TEXT,
        sentence=_TEXT,
    ),
    # Percent; P is null where nothing is mentioned. Intervals are null where there were no images to resample.
    "capeval": _schema(
        captioner=_TEXT,
        group_kind=_TEXT,
        group=_TEXT,
        C=_REAL,
        C_low=_REAL,
        C_high=_REAL,
        P=_REAL,
        P_low=_REAL,
        P_high=_REAL,
        num_yes=_COUNT,
        num_no=_COUNT,
        num_not_mentioned=_COUNT,
        num_unjudged=_COUNT,
    ),
    # One question of an understanding benchmark; `answer` is what the method `extraction` made of `raw_answer`, null if
    # nothing. `image` is equal where questions show the same one; `guess` is the chance of guessing right, 0-1.
    "answers": _schema(
        benchmark=_TEXT,
        question_id=_TEXT,
        group=_TEXT,
        kind=_TEXT,
        image=_TEXT,
        raw_answer=_TEXT,
        answer=_TEXT,
        extraction=_TEXT,
        expected=_TEXT,
        correct=_FLAG,
        guess=_REAL,
    ),
    # What a model wrote; `finish_reason` is stop, length (cut) or too_long (the question fills the model's context: the
    # answer is empty).
    "raw_answers": _schema(benchmark=_TEXT, question_id=_TEXT, raw_answer=_TEXT, finish_reason=_TEXT),
    # One generated picture; `index` counts the pictures of a prompt.
    "pictures": _schema(benchmark=_TEXT, prompt_id=_TEXT, index=_COUNT, prompt=_TEXT, path=_TEXT, noise_seed=_COUNT),
    # One generated picture's score, 0-1, in one category of its benchmark, null where the official scorer drops it;
    # `reason` says what is wrong, `seen` is what the models said, as JSON.
    "picture_scores": _schema(
        benchmark=_TEXT, prompt_id=_TEXT, index=_COUNT, category=_TEXT, score=_REAL, reason=_TEXT, seen=_TEXT
    ),
    # What one model reached; collecting adds whose model it is. `variant` is published, overall or a named one (of a
    # generation benchmark a category), null where a benchmark has a single headline. `raw` in the benchmark's own unit,
    # the rest 0-100; `std_error` of `score`.
    "benchmark_scores": _schema(
        benchmark=_TEXT,
        variant=_TEXT,
        metric=_TEXT,
        raw=_REAL,
        score=_REAL,
        std_error=_REAL,
        chance=_REAL,
        num_items=_COUNT,
        num_unparsed=_COUNT,
        harness=_TEXT,
        comparable=_FLAG,
    ),
    "scores": _schema(
        captioner=_TEXT,
        family=_TEXT,
        pipeline=_TEXT,
        objective=_TEXT,
        seed=_COUNT,
        benchmark=_TEXT,
        variant=_TEXT,
        metric=_TEXT,
        raw=_REAL,
        score=_REAL,
        std_error=_REAL,
        chance=_REAL,
        num_items=_COUNT,
        num_unparsed=_COUNT,
        harness=_TEXT,
        comparable=_FLAG,
    ),
    # One row each time that training logs; all but step and epoch tell of the steps since the last row, over all
    # processes. `tokens_per_second`: those of the trained transformer, padding left out; `model_tflops`: 10^12 model
    # FLOPs a second and device; `mfu`: their share of the device's bf16 peak, null where that is not known;
    # `share_waiting` of wall time for data; `share_truncated` of samples: those longer than `max_length`, captions that
    # no text encoder reads to their end. Shares are 0-1.
    "training": _schema(
        step=_COUNT,
        epoch=_REAL,
        loss=_REAL,
        learning_rate=_REAL,
        grad_norm=_REAL,
        tokens_per_second=_REAL,
        model_tflops=_REAL,
        mfu=_REAL,
        share_waiting=_REAL,
        share_truncated=_REAL,
    ),
    "captioners": _schema(captioner=_TEXT, family=_TEXT, label=_TEXT),
    "regression": _schema(
        outcome=_TEXT,
        objective=_TEXT,
        pipeline=_TEXT,
        spec=_TEXT,
        term=_TEXT,
        estimate=_REAL,
        std_error=_REAL,
        statistic=_REAL,
        df=_REAL,
        p_value=_REAL,
        conf_low=_REAL,
        conf_high=_REAL,
        estimate_std=_REAL,
        vcov=_TEXT,
        p_value_wild=_REAL,
        p_value_holm=_REAL,
        q_value_bh=_REAL,
        vif=_REAL,
        loo_min=_REAL,
        loo_max=_REAL,
        lofo_min=_REAL,
        lofo_max=_REAL,
        n_obs=_COUNT,
        n_families=_COUNT,
    ),
    # One fit. `f_*` tests C = P = 0; for outcome `dissociation` that is the test that U and G react alike.
    "regression_models": _schema(
        outcome=_TEXT,
        objective=_TEXT,
        pipeline=_TEXT,
        spec=_TEXT,
        vcov=_TEXT,
        r_squared=_REAL,
        r_squared_adjusted=_REAL,
        residual_sd=_REAL,
        f_statistic=_REAL,
        f_df_num=_REAL,
        f_df_den=_REAL,
        f_p_value=_REAL,
        corr_C_P=_REAL,
        between_families_C=_REAL,
        between_families_P=_REAL,
        num_seeds=_COUNT,
        seed_sd=_REAL,
        n_obs=_COUNT,
        n_families=_COUNT,
    ),
    # One term without one captioner or one family (`kind`, `left_out`); leverage and Cook's distance of a captioner.
    "regression_influence": _schema(
        outcome=_TEXT,
        objective=_TEXT,
        pipeline=_TEXT,
        kind=_TEXT,
        left_out=_TEXT,
        term=_TEXT,
        estimate=_REAL,
        change=_REAL,
        leverage=_REAL,
        cooks_distance=_REAL,
        n_obs=_COUNT,
    ),
    # One term on other data: `kind` is all_benchmarks, without_benchmark or named; `change` says which.
    "regression_sensitivity": _schema(
        outcome=_TEXT,
        objective=_TEXT,
        pipeline=_TEXT,
        kind=_TEXT,
        change=_TEXT,
        term=_TEXT,
        vcov=_TEXT,
        estimate=_REAL,
        std_error=_REAL,
        statistic=_REAL,
        df=_REAL,
        p_value=_REAL,
        conf_low=_REAL,
        conf_high=_REAL,
        n_obs=_COUNT,
        n_benchmarks=_COUNT,
    ),
    # What a sweep uses of others: `kind` is model, dataset or folder, `revision` is null for a folder, `used_by` are
    # keys of the config.
    "licences": _schema(asset=_TEXT, kind=_TEXT, used_by=_TEXT, revision=_TEXT, licence=_TEXT),
    # U or G as a publication prints it, 0-100.
    "aggregates": _schema(captioner=_TEXT, pipeline=_TEXT, objective=_TEXT, aggregate=_TEXT, score=_REAL),
}


def write_table(
    path: str | Path,
    table: pa.Table | pd.DataFrame | list[dict[str, Any]],
    name: str,
    metadata: dict[str, str] | None = None,
    row_group: int | None = None,
) -> None:
    """Write a table whole or not at all; `metadata` goes into the schema of a Parquet file, `row_group` are the rows of
    it that are decoded at once to read one.

    Raises UserError where the columns are not those of `SCHEMAS[name]` or a value does not fit its type.
    """
    schema = SCHEMAS[name]
    try:
        if isinstance(table, list):
            columns = set().union(*(row.keys() for row in table))
            _check_columns(path, name, columns or set(schema.names))
            table = pa.Table.from_pylist(table, schema=schema)
        elif isinstance(table, pd.DataFrame):
            _check_columns(path, name, table.columns)
            table = pa.Table.from_pandas(table, schema=schema, preserve_index=False)
        else:
            _check_columns(path, name, table.column_names)
            table = table.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UserError(f"{path}: a value does not fit table {name!r}: {error}") from None
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **(metadata or {})})
    with atomic(path) as temporary:
        if Path(path).suffix == ".csv":
            pyarrow.csv.write_csv(table, temporary, pyarrow.csv.WriteOptions(quoting_style="needed"))
        else:
            pyarrow.parquet.write_table(table, temporary, row_group_size=row_group)


@contextmanager
def growing_table(
    path: str | Path, name: str, metadata: dict[str, str] | None = None
) -> Iterator[Callable[[list[dict[str, Any]]], None]]:
    """A function that adds rows to a Parquet table, of which only the last rows are in memory. The table is whole and
    in its place once the context ends without an error."""
    schema = SCHEMAS[name].with_metadata(metadata)
    with atomic(path) as temporary, pyarrow.parquet.ParquetWriter(temporary, schema) as writer:
        yield lambda rows: writer.write_table(pa.Table.from_pylist(rows, schema=schema))


def read_table(path: str | Path, name: str) -> pd.DataFrame:
    """A table as a frame. Raises UserError naming file and column where one is missing, unknown or of a wrong type."""
    path, schema = Path(path), SCHEMAS[name]
    if not path.is_file():
        raise UserError(f"{path}: no such file (table {name!r})")
    try:
        if path.suffix == ".csv":
            convert = pyarrow.csv.ConvertOptions(
                column_types=schema,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
            parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
            table = pyarrow.csv.read_csv(path, convert_options=convert, parse_options=parse)
        else:
            table = pyarrow.parquet.read_table(path)
        _check_columns(path, name, table.column_names)
        return table.select(schema.names).cast(schema).to_pandas()
    except pa.ArrowInvalid as error:
        raise UserError(f"{path}: not a table {name!r}: {error}") from None


def _check_columns(path: str | Path, name: str, columns: Any) -> None:
    expected, found = SCHEMAS[name].names, list(columns)
    for column in found:
        if column not in expected:
            guess = nearest(column, expected)
            hint = f", did you mean {guess!r}?" if guess else ""
            raise UserError(f"{path}: table {name!r} has no column {column!r}{hint}")
    for column in expected:
        if column not in found:
            raise UserError(f"{path}: table {name!r} lacks column {column!r}")
