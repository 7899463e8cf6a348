"""Weights, data sets and benchmark files at pinned revisions, and the blocks world in their place."""


rule fetch_asset:
    output:
        f"{CONFIG.assets}/{{asset}}.json",
    log:
        f"{CONFIG.assets}/logs/{{asset}}.log",
    benchmark:
        f"{CONFIG.assets}/logs/{{asset}}.tsv"
    retries: 2
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 4
    resources:
        mem_mb=4000,
        runtime=lambda wildcards, attempt: 720 * attempt,
        python=PYTHON,
    params:
        spec=lambda wildcards: plan.as_param(plan.fetch_job(CONFIG, wildcards.asset)),
    message:
        "Fetch {wildcards.asset}"
    shell:
        "{resources.python} -m workflow_scripts.assets.fetch --spec {params.spec:q}"
        " --folder {CONFIG.assets}/{wildcards.asset} --out {output} > {log} 2>&1"


if CONFIG.world:

    rule make_world:
        output:
            f"{RESULTS}/world/manifest.json",
        log:
            f"{RESULTS}/logs/make_world.log",
        benchmark:
            f"{RESULTS}/logs/make_world.tsv"
        conda:
            "../envs/core.yaml"
        threads: 1
        resources:
            mem_mb=1000,
            runtime=10,
            python=PYTHON,
        params:
            spec=plan.as_param(CONFIG.world),
        message:
            "Make the blocks world"
        shell:
            "{resources.python} -m workflow_scripts.blocks.make_world --spec {params.spec:q}"
            " --out {RESULTS}/world --manifest {output} > {log} 2>&1"

    rule rebuild_bases:
        output:
            f"{RESULTS}/bases.json",
        log:
            f"{RESULTS}/logs/rebuild_bases.log",
        benchmark:
            f"{RESULTS}/logs/rebuild_bases.tsv"
        conda:
            "../envs/train.yaml"
        threads: 1
        resources:
            mem_mb=4000,
            runtime=60,
            python=PYTHON,
        message:
            "Train the checkpoints in resources/blocks anew, beside them"
        shell:
            "({resources.python} -m workflow_scripts.blocks.build_t2i_bases --out {RESULTS}/bases"
            " && {resources.python} -m workflow_scripts.blocks.build_vlm_bases --spec '{{}}' --out {RESULTS}/bases"
            " && cp {RESULTS}/bases/vlm_bases.json {output}) > {log} 2>&1"
