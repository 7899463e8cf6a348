"""Weights, data sets and benchmark files at pinned revisions, and the blocks world in their place."""

ASSETS = plan.assets_of(CONFIG)
LOCK = read_lock("assets.lock.yaml")


rule fetch_assets:
    input:
        expand(f"{CONFIG.assets}/{{asset}}.json", asset=ASSETS),
    localrule: True


rule fetch_asset:
    output:
        f"{CONFIG.assets}/{{asset}}.json",
    log:
        f"{CONFIG.assets}/logs/{{asset}}.log",
    benchmark:
        f"{CONFIG.assets}/logs/{{asset}}.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 4
    resources:
        mem_mb=4000,
        runtime=lambda wildcards, attempt: 720 * attempt,
        python=PYTHON,
        used_by=lambda wildcards: " ".join(ASSETS[wildcards.asset]),
        licence=lambda wildcards: next(iter(ASSETS[wildcards.asset].values())).licence,
    params:
        spec=lambda wildcards: plan.as_param(plan.fetch_job(CONFIG, wildcards.asset, LOCK)),
    message:
        "Fetch {wildcards.asset}"
    shell:
        "{resources.python} -m workflow_scripts.assets.fetch --spec {params.spec:q} --used-by {resources.used_by:q}"
        " --licence {resources.licence:q} --folder {CONFIG.assets}/{wildcards.asset} --out {output} > {log} 2>&1"


# Only when asked for, with `-f`. A failed run leaves the lock as it was.
rule lock_assets:
    output:
        update("assets.lock.yaml"),
    log:
        f"{CONFIG.assets}/logs/lock_assets.log",
    benchmark:
        f"{CONFIG.assets}/logs/lock_assets.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
        python=PYTHON,
    params:
        spec=plan.as_param(plan.lock_job(CONFIG)),
    message:
        "Pin every repository to its commit"
    shell:
        "{resources.python} -m workflow_scripts.assets.lock --spec {params.spec:q} --out {output} > {log} 2>&1"


rule list_licences:
    input:
        code="workflow_scripts/assets/licences.py",
    output:
        f"{RESULTS}/licences.csv",
    log:
        f"{RESULTS}/logs/list_licences.log",
    benchmark:
        f"{RESULTS}/logs/list_licences.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
        python=PYTHON,
    params:
        spec=plan.as_param(plan.licences_job(CONFIG, LOCK)),
    message:
        "List licences"
    shell:
        "{resources.python} -m workflow_scripts.assets.licences --spec {params.spec:q} --out {output} > {log} 2>&1"


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
