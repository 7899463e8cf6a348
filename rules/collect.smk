"""From every captioner's measurements to the sweep's tables. A missing number stops here."""

CAPEVAL_TABLES = [f"{RESULTS}/capeval/{captioner}/scores.csv" for captioner in CONFIG.captioners]
KEPT_SELECTIONS = [
    *expand(
        f"{VLM}/{{captioner}}/selection.parquet",
        pipeline=CONFIG.understanding.pipelines,
        seed=CONFIG.seeds,
        captioner=CONFIG.captioners,
    ),
    *expand(
        f"{T2I}/selection.parquet",
        pipeline=CONFIG.generation.pipelines,
        seed=CONFIG.seeds,
        captioner=CONFIG.captioners,
    ),
]
SCORE_TABLES = [f"{RESULTS}/scores/{captioner}.csv" for captioner in CONFIG.captioners]


rule collect_captioner:
    input:
        scores=measured,
        code="workflow_scripts/collect/captioner.py",
    output:
        f"{RESULTS}/scores/{{captioner}}.csv",
    log:
        f"{RESULTS}/logs/scores/{{captioner}}.log",
    benchmark:
        f"{RESULTS}/logs/scores/{{captioner}}.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
        python=PYTHON,
    params:
        spec=lambda wildcards: plan.as_param(plan.collect_captioner_job(CONFIG, wildcards.captioner)),
    message:
        "Collect the scores of {wildcards.captioner}"
    shell:
        "{resources.python} -m workflow_scripts.collect.captioner --spec {params.spec:q} --out {output} > {log} 2>&1"


rule compare_selections:
    input:
        kept=KEPT_SELECTIONS,
        selections=expand(f"{SELECTION}/{{pipeline}}.parquet", captioner=CONFIG.captioners, pipeline=PIPELINES),
        code="workflow_scripts/collect/selections.py",
    output:
        f"{RESULTS}/selection/apart.csv",
    log:
        f"{RESULTS}/logs/compare_selections.log",
    benchmark:
        f"{RESULTS}/logs/compare_selections.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=30,
        python=PYTHON,
    params:
        spec=lambda wildcards: plan.as_param(plan.compare_selections_job(CONFIG)),
    message:
        "Compare the images that models were trained on"
    shell:
        "{resources.python} -m workflow_scripts.collect.selections --spec {params.spec:q} --results {RESULTS}"
        " --out {output} > {log} 2>&1"


rule collect_sweep:
    input:
        selections=rules.compare_selections.output,
        capeval=CAPEVAL_TABLES,
        scores=SCORE_TABLES,
        code="workflow_scripts/collect/sweep.py",
    output:
        capeval=f"{RESULTS}/capeval.csv",
        scores=f"{RESULTS}/scores.csv",
        captioners=f"{RESULTS}/captioners.csv",
    log:
        f"{RESULTS}/logs/collect_sweep.log",
    benchmark:
        f"{RESULTS}/logs/collect_sweep.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
        python=PYTHON,
    params:
        spec=plan.as_param(plan.collect_job(CONFIG)),
    message:
        "Collect all captioners"
    shell:
        "{resources.python} -m workflow_scripts.collect.sweep --spec {params.spec:q} --capeval-tables {input.capeval}"
        " --score-tables {input.scores} --capeval {output.capeval} --scores {output.scores}"
        " --captioners {output.captioners} > {log} 2>&1"
