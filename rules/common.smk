"""What the rules share: the checked config, lookups in it, and what jobs ask of the machine."""

import os
import re
import shlex
import sys
from pathlib import Path


def python_of(environment):
    """The interpreter of an environment of envs/: the deployed one's where conda is asked for, else that of the
    checkout's .venv-<environment> where there is one (`make serve`), else the one that runs Snakemake.

    A profile can name another one a rule: `set-resources: {caption_shards: {python: /path/to/bin/python}}`.
    """
    if workflow.deployment_settings.deployment_method:
        return "python"
    own = Path(workflow.basedir, f".venv-{environment}/bin/python")
    return str(own) if own.is_file() else sys.executable


PYTHON = python_of("core")


def checked_config():
    """The config as models. Every fault of it ends Snakemake here, before any job."""
    try:
        for path in workflow.overwrite_configfiles or ["config.yaml"]:
            read_yaml(path)
        return check_config(config, ", ".join(map(str, workflow.overwrite_configfiles)) or "config.yaml")
    except UserError as error:
        raise WorkflowError(str(error)) from None


def one_of(names):
    """A wildcard constraint: one of these names."""
    return "|".join(re.escape(str(name)) for name in names) or "none"


def files_of(*sources):
    """What must be there before a job reads these sources: manifests of fetched repositories, or of the made world."""
    needed = set()
    for source in filter(None, sources):
        if source.hub:
            needed.add(f"{CONFIG.assets}/{plan.asset_name(source)}.json")
        elif plan.in_world(CONFIG, source):
            needed.add(f"{RESULTS}/world/manifest.json")
    return sorted(needed)


def request(needs, **more):
    """The `resources` of a rule. `needs` gives the `Needs` of a job from its wildcards; time grows with each attempt."""
    return dict(
        gpu=lambda wildcards: needs(wildcards).gpus,
        mem_mb=lambda wildcards: 1000 * needs(wildcards).mem_gb,
        runtime=lambda wildcards, attempt: round(60 * needs(wildcards).hours * attempt),
        nodes=1,
        **{"python": PYTHON, **more},
    )


def threads_of(needs):
    """The `threads` of a rule."""
    return lambda wildcards: needs(wildcards).threads


def train_on(stage):
    """The `resources` of a training rule. `stage` gives its `Optimisation` from the wildcards.

    Over several nodes Slurm counts GPUs, memory and threads by node and runs the rule's command on the first, where
    `srun` starts one launcher a node; Snakemake knows that as an MPI job.
    """

    def needs(wildcards):
        return stage(wildcards).needs

    def several(value):
        return lambda wildcards: value(needs(wildcards)) if needs(wildcards).nodes > 1 else None

    return dict(
        request(needs),
        gpu=lambda wildcards: needs(wildcards).gpus if needs(wildcards).nodes == 1 else 0,
        nodes=lambda wildcards: needs(wildcards).nodes,
        gres=several(lambda asked: f"gpu:{asked.gpus}" if asked.gpus else None),
        mpi=several(lambda asked: "srun"),
        tasks=several(lambda asked: asked.nodes),
        srun=lambda wildcards: srun(needs(wildcards)),
        launch=lambda wildcards: launch(stage(wildcards)),
        loader_workers=lambda wildcards: stage(wildcards).loader_workers,
    )


def require_slurm_for_nodes():
    """Raise WorkflowError before any job of a run where one takes several nodes and it is not Slurm that starts it."""
    planned = any(job.resources.get("nodes", 1) > 1 for job in workflow.dag.needrun_jobs())
    if planned and workflow.executor_plugin.name not in ("slurm", "touch") and "SLURM_JOB_ID" not in os.environ:
        stages = [key for key, stage in plan.training_stages(CONFIG).items() if stage.needs.nodes > 1]
        raise WorkflowError(
            f"{', '.join(f'{key}.needs.nodes' for key in stages)}: more than one node needs Slurm, this run has executor "
            f"{workflow.executor_plugin.name!r}: `snakemake --profile slurm`, or 1"
        )


def srun(needs):
    """What starts a training command once on each node of its job; nothing on one node."""
    if needs.nodes == 1:
        return ""
    gpus = f" --gres=gpu:{needs.gpus}" if needs.gpus else ""
    each = f"--ntasks={needs.nodes} --ntasks-per-node=1 --cpus-per-task={needs.threads}{gpus}"
    return f"srun --nodes={needs.nodes} {each} --kill-on-bad-exit=1 "


def launch(training):
    """How a training job starts on its node: plain, or one process a GPU; the launchers of several nodes meet on the
    first, at a port that follows from the job's number."""
    nodes, devices = training.needs.nodes, training.devices
    if nodes == 1:
        return processes(devices)
    meet = "--rdzv-backend=c10d --rdzv-id=$SLURM_JOB_ID --rdzv-endpoint=$(hostname):$((20000 + SLURM_JOB_ID % 10000))"
    return f"-m torch.distributed.run --nnodes={nodes} --nproc-per-node={devices // nodes} {meet} -m"


def processes(number):
    """How Python starts a module in so many processes of one node that know of each other."""
    return f"-m torch.distributed.run --standalone --nproc-per-node={number} -m" if number > 1 else "-m"


def captioner_of(wildcards):
    return CONFIG.captioners[wildcards.captioner]


def captioner_needs(wildcards):
    return captioner_of(wildcards).needs


def captioner_files(wildcards, capeval=False):
    """What a captioner reads beside the pool's or CAPEval's images: its weights, or a file of captions."""
    job = plan.caption_job(CONFIG, wildcards.captioner, capeval).engine
    captions = [str(job.replay.file)] if job.replay else []
    return files_of(captioner_of(wildcards).model) + captions


def captioner_capeval_files(wildcards):
    return captioner_files(wildcards, capeval=True)


def conda_of(asked):
    """The `conda` of a rule. `asked` gives its captioner or judge from the wildcards."""
    return lambda wildcards: f"../envs/{plan.environment_of(asked(wildcards))}.yaml"


def serve(asked):
    """The `resources` of a rule that asks an engine: its GPUs, its interpreter, how it is served."""
    return dict(
        request(
            lambda wildcards: asked(wildcards).needs,
            python=lambda wildcards: python_of(plan.environment_of(asked(wildcards))),
        ),
        serving=lambda wildcards: plan.as_param(plan.serving_job(asked(wildcards))),
    )


def judge_of(wildcards):
    return CONFIG.capeval.judge


def judge_again(wildcards):
    """The judge of a second opinion."""
    return CONFIG.capeval.second_judge if wildcards.again == "second" else CONFIG.capeval.judge


def judge_again_needs(wildcards):
    return judge_again(wildcards).needs


def judge_again_job(wildcards):
    second = wildcards.again == "second"
    return plan.judge_job(CONFIG, CONFIG.capeval.second_judge) if second else plan.retest_job(CONFIG)


def compared_verdicts():
    """The verdicts and votes whose agreement is measured."""
    job, folder = plan.reliability_job(CONFIG), f"{RESULTS}/capeval"
    files = [f"{folder}/{name}/{table}.parquet" for name in job.captioners for table in ("verdicts", "votes")]
    files += [f"{folder}/{name}/second/verdicts.parquet" for name in job.second_judged]
    return files + [f"{folder}/{name}/retest/verdicts.parquet" for name in job.retested]


def caption_tables():
    """What the report says about the pool and its captions."""
    if CONFIG.published:
        return []
    tables = [
        f"{RESULTS}/captions/{captioner}/{table}.csv"
        for captioner in CONFIG.captioners
        for table in ("statistics", "limits")
    ]
    tables += [f"{RESULTS}/selection/{INTERSECTION}/counts.csv", *rules.compare_selections.output]
    return [f"{RESULTS}/pool/left_out.csv", *tables, *rules.plot_captions.output]


def judging_tables():
    """What the report says about the judge and the captions beside C and P."""
    if CONFIG.published:
        return []
    tables = [f"{RESULTS}/{name}.csv" for name in ("capeval_baselines", "reliability", "confusion")]
    tables += [
        f"{RESULTS}/capeval/{captioner}/{name}.csv"
        for captioner in CONFIG.captioners
        for name in ("diagnosis", "flagged")
    ]
    return tables + ([f"{RESULTS}/capeval/canaries.csv"] if plan.judge_is_model(CONFIG) else [])


def selected_from(wildcards):
    """The unusable captions behind a selection of images."""
    captioners = plan.selected_from(CONFIG, wildcards.selection)
    return [f"{RESULTS}/captions/{captioner}/unusable.parquet" for captioner in captioners]


def vlm_pipeline(wildcards):
    return CONFIG.understanding.pipelines[wildcards.pipeline]


def trained_model(wildcards):
    """What names one trained vision-language model."""
    return dict(pipeline=wildcards.pipeline, seed=int(wildcards.seed), captioner=wildcards.captioner)


def conversations_of(stage):
    """The index of a training stage's conversations. `stage` gives the stage from the wildcards."""
    return lambda wildcards: f"{RESULTS}/conversations/{plan.conversations_name(stage(wildcards))}/index.parquet"


def all_conversations():
    """The indexes of all conversations that models are trained on."""
    return expand(f"{RESULTS}/conversations/{{name}}/index.parquet", name=plan.conversations_of(CONFIG))


def t2i_pipeline(wildcards):
    return CONFIG.generation.pipelines[wildcards.pipeline]


def t2i_benchmark(wildcards):
    return CONFIG.generation.benchmarks[wildcards.benchmark]


def vlm_parts(wildcards):
    """The repositories that a pipeline's model is made of."""
    model = vlm_pipeline(wildcards).model
    return files_of(model.base, model.vision, model.language, model.projector)


def vlm_start(wildcards):
    """What alignment starts from: a whole LLaVA folder, or the assembled one."""
    base = vlm_pipeline(wildcards).model.base
    return (
        files_of(base)
        if base
        else f"{RESULTS}/understanding/{wildcards.pipeline}/seed-{wildcards.seed}/base/model.json"
    )


def finetune_and_measure_jobs(wildcards):
    """The fine-tuning, then making and scoring the pictures of every benchmark."""
    yield plan.finetune_job(CONFIG, wildcards.pipeline, int(wildcards.seed))
    for benchmark in CONFIG.generation.benchmarks:
        yield plan.generate_job(CONFIG, wildcards.pipeline, benchmark)
        yield plan.score_images_job(CONFIG, benchmark)


def measure_commands():
    """The commands that make and score every benchmark's pictures, after `t2i.finetune` in the same process."""
    return "".join(
        f" + t2i.generate --model {{output.model}} --batch {{resources.batch}} --out {{output.pictures[{i}]}}"
        f" + t2i.score --pictures {{output.pictures[{i}]}} --out {{output.scores[{i}]}}"
        f" --per-picture {{output.per_picture[{i}]}}"
        for i in range(len(CONFIG.generation.benchmarks))
    )


def measured(wildcards):
    """All that one captioner's scores rest on."""
    job = plan.collect_captioner_job(CONFIG, wildcards.captioner)
    return [subject.path for subject in job.subjects]


def printed_aggregates():
    """U and G as printed, where the analysis asks for them."""
    printed = "printed" in CONFIG.analysis.aggregate.values()
    return [f"{CONFIG.published.tables}/table4_aggregates.csv"] if CONFIG.published and printed else []


def code_of(*packages):
    """The modules of a cheap stage: an edit of one reruns the stage."""
    return sorted(str(path) for package in packages for path in Path("workflow_scripts", package).glob("*.py"))


def final_outputs():
    """Everything that a whole sweep leaves for people to read."""
    return [f"{RESULTS}/regression.csv", f"{RESULTS}/report.html"]


def tell_absent():
    """Before a run: which local files and folders of the config are not there. A part of the sweep may not need them."""
    absent = [f"{key}: {path}" for key, path in plan.absent_paths(CONFIG)]
    if absent:
        print("Not there, and what needs it will stop:", *absent, sep="\n  ", file=sys.stderr)


def tell():
    """After a run: where the report is, and the three lines that a person wants to know."""
    page, summary = Path(RESULTS, "report.html"), Path(RESULTS, "summary.json")
    if page.is_file() and summary.is_file():
        print("", *read_json(summary)["lines"], f"Report: {page}", sep="\n")


onstart:
    require_slurm_for_nodes()
    tell_absent()


onsuccess:
    tell()
