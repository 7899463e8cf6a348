"""Captions of the pool: one job a range of shards and captioner, then one manifest and the
statistics a captioner, the images to train on, and figures of all."""

CAPTION_JOBS = plan.caption_jobs(CONFIG)
PIPELINES = [*CONFIG.understanding.pipelines, *CONFIG.generation.pipelines]
SELECTION = f"{RESULTS}/selection/{plan.selection_of(CONFIG)}"


rule caption_shards:
    input:
        model=captioner_files,
        pool=f"{RESULTS}/pool/images.parquet",
    output:
        f"{RESULTS}/captions/{{captioner}}/jobs/{{job}}.json",
    log:
        f"{RESULTS}/logs/captions/{{captioner}}/{{job}}.log",
    benchmark:
        f"{RESULTS}/logs/captions/{{captioner}}/{{job}}.tsv"
    conda:
        conda_of(captioner_of)
    threads: threads_of(captioner_needs)
    resources:
        **serve(captioner_of),
        shards=lambda wildcards: "{0.start}:{0.stop}".format(CAPTION_JOBS[wildcards.job]),
    params:
        spec=lambda wildcards: plan.as_param(plan.caption_job(CONFIG, wildcards.captioner)),
    message:
        "Caption shards with {wildcards.captioner}, job {wildcards.job}"
    shell:
        "{resources.python} -m workflow_scripts.captions.caption --spec {params.spec:q} --serving {resources.serving:q}"
        " --pool {input.pool} --shards {resources.shards} --out-dir {RESULTS}/captions/{wildcards.captioner}"
        " --out {output} > {log} 2>&1"


rule collect_captions:
    input:
        jobs=expand(f"{RESULTS}/captions/{{{{captioner}}}}/jobs/{{job}}.json", job=CAPTION_JOBS),
        code=["workflow_scripts/captions/collect.py", "workflow_scripts/captions/read.py"],
    output:
        f"{RESULTS}/captions/{{captioner}}/captions.json",
    log:
        f"{RESULTS}/logs/captions/{{captioner}}/collect.log",
    benchmark:
        f"{RESULTS}/logs/captions/{{captioner}}/collect.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=lambda wildcards, attempt: 60 * attempt,
        python=PYTHON,
    params:
        spec=lambda wildcards: plan.as_param(plan.collect_captions_job(CONFIG, wildcards.captioner)),
    message:
        "Collect the captions of {wildcards.captioner}"
    shell:
        "{resources.python} -m workflow_scripts.captions.collect --spec {params.spec:q} --jobs {input.jobs}"
        " --out {output} > {log} 2>&1"


rule caption_statistics:
    input:
        captions=f"{RESULTS}/captions/{{captioner}}/captions.json",
        tokenizers=files_of(*(reader.model for reader in plan.text_readers(CONFIG).values())),
        code=[
            f"workflow_scripts/captions/{name}.py"
            for name in ("statistics", "encoders", "degenerate", "read", "selection")
        ],
    output:
        statistics=f"{RESULTS}/captions/{{captioner}}/statistics.csv",
        limits=f"{RESULTS}/captions/{{captioner}}/limits.csv",
        lengths=f"{RESULTS}/captions/{{captioner}}/lengths.csv",
        unusable=f"{RESULTS}/captions/{{captioner}}/unusable.parquet",
    log:
        f"{RESULTS}/logs/captions/{{captioner}}/statistics.log",
    benchmark:
        f"{RESULTS}/logs/captions/{{captioner}}/statistics.tsv"
    conda:
        "../envs/core.yaml"
    threads: threads_of(lambda wildcards: CONFIG.captioning.statistics_needs)
    resources:
        **request(lambda wildcards: CONFIG.captioning.statistics_needs),
    params:
        spec=lambda wildcards: plan.as_param(plan.caption_statistics_job(CONFIG, wildcards.captioner)),
    message:
        "Measure the captions of {wildcards.captioner}"
    shell:
        "{resources.python} -m workflow_scripts.captions.statistics --spec {params.spec:q} --captions {input.captions}"
        " --threads {threads} --out {output.statistics} --limits {output.limits} --lengths {output.lengths}"
        " --unusable {output.unusable} > {log} 2>&1"


rule select_images:
    input:
        pool=f"{RESULTS}/pool/images.parquet",
        unusable=selected_from,
        code=[f"workflow_scripts/captions/{name}.py" for name in ("select", "selection")],
    output:
        selections=[f"{RESULTS}/selection/{{selection}}/{pipeline}.parquet" for pipeline in PIPELINES],
        counts=f"{RESULTS}/selection/{{selection}}/counts.csv",
    log:
        f"{RESULTS}/logs/selection/{{selection}}.log",
    benchmark:
        f"{RESULTS}/logs/selection/{{selection}}.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=16000,
        runtime=60,
        python=PYTHON,
    params:
        spec=lambda wildcards: plan.as_param(plan.select_job(CONFIG, wildcards.selection)),
    message:
        "Select the images to train on: {wildcards.selection}"
    shell:
        "{resources.python} -m workflow_scripts.captions.select --spec {params.spec:q} --pool {input.pool}"
        " --unusable {input.unusable} --out-dir {RESULTS}/selection/{wildcards.selection} --counts {output.counts}"
        " > {log} 2>&1"


# An edit of one captioner changes the selection for all, a little, and only its own models are trained again: training
# takes the selection as `ancient`, and `compare_selections` says how far the other models are from it. Were an ancient
# file missing while its job is to run, Snakemake would train them all. So they read a copy that is never away: a failed
# `select_images` leaves it as it was, and `update` keeps it until it is replaced.
rule settle_selection:
    input:
        f"{RESULTS}/selection/{{selection}}/{{pipeline}}.parquet",
    output:
        update(f"{RESULTS}/selection/{{selection}}/settled/{{pipeline}}.parquet"),
    log:
        f"{RESULTS}/logs/selection/{{selection}}.{{pipeline}}.log",
    benchmark:
        f"{RESULTS}/logs/selection/{{selection}}.{{pipeline}}.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    message:
        "Settle the images to train {wildcards.pipeline} on: {wildcards.selection}"
    shell:
        "cp {input} {output}.new 2> {log} && mv {output}.new {output}"


rule plot_captions:
    input:
        tables=expand(
            f"{RESULTS}/captions/{{captioner}}/{{table}}.csv",
            captioner=CONFIG.captioners,
            table=["statistics", "limits", "lengths"],
        ),
        code=[*(f"workflow_scripts/captions/{name}.py" for name in ("plot", "figures")), "workflow_scripts/drawing.py"],
    output:
        expand(
            f"{RESULTS}/figures/{{figure}}.{{suffix}}",
            figure=["caption_faults", "caption_lengths"],
            suffix=["svg", "png"],
        ),
    log:
        f"{RESULTS}/logs/plot_captions.log",
    benchmark:
        f"{RESULTS}/logs/plot_captions.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
        python=PYTHON,
    params:
        spec=plan.as_param(plan.captioners_job(CONFIG)),
    message:
        "Draw the figures of the captions"
    shell:
        "{resources.python} -m workflow_scripts.captions.plot --spec {params.spec:q} --captions {RESULTS}/captions"
        " --out-dir {RESULTS}/figures > {log} 2>&1"
