"""Vision-language models: align once a pipeline and seed, train and evaluate once a captioner."""

VLM = f"{RESULTS}/understanding/{{pipeline}}/seed-{{seed}}"
EVALUATE = plan.evaluate_environment(CONFIG)
CONVERSATIONS = plan.conversations_of(CONFIG)


rule index_conversations:
    input:
        data=lambda wildcards: files_of(CONVERSATIONS[wildcards.conversations].data),
    output:
        f"{RESULTS}/conversations/{{conversations}}/index.parquet",
    log:
        f"{RESULTS}/logs/conversations/{{conversations}}.log",
    benchmark:
        f"{RESULTS}/logs/conversations/{{conversations}}.tsv"
    wildcard_constraints:
        conversations=one_of(CONVERSATIONS),
    conda:
        "../envs/core.yaml"
    threads: threads_of(lambda wildcards: CONFIG.understanding.index_needs)
    resources:
        **request(lambda wildcards: CONFIG.understanding.index_needs),
    params:
        spec=lambda wildcards: plan.as_param(plan.index_job(CONFIG, CONVERSATIONS[wildcards.conversations])),
    message:
        "Check the conversations {wildcards.conversations}"
    shell:
        "{resources.python} -m workflow_scripts.vlm.index --spec {params.spec:q} --threads {threads}"
        " --out {output} > {log} 2>&1"


rule assemble_vlm:
    input:
        model=vlm_parts,
    output:
        f"{VLM}/base/model.json",
    log:
        f"{RESULTS}/logs/understanding/{{pipeline}}-{{seed}}/assemble.log",
    benchmark:
        f"{RESULTS}/logs/understanding/{{pipeline}}-{{seed}}/assemble.tsv"
    conda:
        "../envs/train.yaml"
    threads: 4
    resources:
        mem_mb=96000,
        runtime=lambda wildcards, attempt: 120 * attempt,
        python=PYTHON,
    params:
        spec=lambda wildcards: plan.as_param(plan.assemble_job(CONFIG, wildcards.pipeline, int(wildcards.seed))),
    message:
        "Assemble the model of {wildcards.pipeline}"
    shell:
        "{resources.python} -m workflow_scripts.vlm.assemble --spec {params.spec:q} --out {output} > {log} 2>&1"


rule align_vlm:
    input:
        model=vlm_start,
        conversations=conversations_of(lambda wildcards: vlm_pipeline(wildcards).align),
    output:
        model=f"{VLM}/align/model.json",
        training=f"{VLM}/align/training.csv",
    log:
        f"{RESULTS}/logs/understanding/{{pipeline}}-{{seed}}/align.log",
    benchmark:
        f"{RESULTS}/logs/understanding/{{pipeline}}-{{seed}}/align.tsv"
    conda:
        "../envs/train.yaml"
    threads: threads_of(lambda wildcards: vlm_pipeline(wildcards).align.needs)
    resources:
        **train_on(lambda wildcards: vlm_pipeline(wildcards).align),
        start=lambda wildcards, input: "" if vlm_pipeline(wildcards).model.base else f" --start {input.model}",
    params:
        spec=lambda wildcards: plan.as_param(plan.align_job(CONFIG, wildcards.pipeline, int(wildcards.seed))),
    message:
        "Align {wildcards.pipeline}, seed {wildcards.seed}"
    shell:
        "{resources.srun}{resources.python} {resources.launch} workflow_scripts.vlm.align --spec {params.spec:q}"
        "{resources.start} --conversations {input.conversations} --out {output.model} --log-table {output.training} --loader-workers {resources.loader_workers} > {log} 2>&1"


if CONFIG.jobs == "apart":

    rule train_vlm:
        input:
            conversations=conversations_of(lambda wildcards: vlm_pipeline(wildcards).sft),
            start=rules.align_vlm.output.model,
            pool=f"{RESULTS}/pool/images.parquet",
            captions=f"{RESULTS}/captions/{{captioner}}/captions.json",
            selection=ancient(f"{SELECTION}/settled/{{pipeline}}.parquet"),
        output:
            model=f"{VLM}/{{captioner}}/model.json",
            training=f"{VLM}/{{captioner}}/training.csv",
            selection=f"{VLM}/{{captioner}}/selection.parquet",
        log:
            f"{RESULTS}/logs/understanding/{{pipeline}}-{{seed}}/{{captioner}}.train.log",
        benchmark:
            f"{RESULTS}/logs/understanding/{{pipeline}}-{{seed}}/{{captioner}}.train.tsv"
        conda:
            "../envs/train.yaml"
        threads: threads_of(lambda wildcards: vlm_pipeline(wildcards).sft.needs)
        resources:
            **train_on(lambda wildcards: vlm_pipeline(wildcards).sft),
        params:
            spec=lambda wildcards: plan.as_param(plan.sft_job(CONFIG, wildcards.pipeline, int(wildcards.seed))),
        message:
            "Train {wildcards.pipeline} on {wildcards.captioner}, seed {wildcards.seed}"
        shell:
            "{resources.srun}{resources.python} {resources.launch} workflow_scripts.vlm.train --spec {params.spec:q}"
            " --start {input.start} --pool {input.pool} --captions {input.captions}"
            " --selection {input.selection} --kept-selection {output.selection}"
            " --conversations {input.conversations} --out {output.model} --log-table {output.training} --loader-workers {resources.loader_workers} > {log} 2>&1"

    rule evaluate_vlm:
        input:
            benchmarks=files_of(*CONFIG.understanding.benchmarks.values()),
            brought=lambda wildcards: plan.brought_results(CONFIG, **trained_model(wildcards)),
            model=rules.train_vlm.output.model,
        output:
            answers=f"{VLM}/{{captioner}}/answers.parquet",
            scores=f"{VLM}/{{captioner}}/scores.csv",
        log:
            f"{RESULTS}/logs/understanding/{{pipeline}}-{{seed}}/{{captioner}}.evaluate.log",
        benchmark:
            f"{RESULTS}/logs/understanding/{{pipeline}}-{{seed}}/{{captioner}}.evaluate.tsv"
        conda:
            f"../envs/{EVALUATE}.yaml"
        threads: threads_of(lambda wildcards: CONFIG.understanding.evaluate_needs)
        resources:
            **request(lambda wildcards: CONFIG.understanding.evaluate_needs, python=python_of(EVALUATE)),
            serving=plan.as_param(plan.evaluate_serving(CONFIG)),
        params:
            spec=lambda wildcards: plan.as_param(plan.evaluate_job(CONFIG, **trained_model(wildcards))),
        message:
            "Evaluate {wildcards.pipeline} of {wildcards.captioner}, seed {wildcards.seed}"
        shell:
            "{resources.python} -m workflow_scripts.vlm.evaluate --spec {params.spec:q}"
            " --serving {resources.serving:q} --model {input.model} --answers {output.answers} --out {output.scores} > {log} 2>&1"

else:

    rule train_and_evaluate_vlm:
        input:
            benchmarks=files_of(*CONFIG.understanding.benchmarks.values()),
            conversations=conversations_of(lambda wildcards: vlm_pipeline(wildcards).sft),
            brought=lambda wildcards: plan.brought_results(CONFIG, **trained_model(wildcards)),
            start=rules.align_vlm.output.model,
            pool=f"{RESULTS}/pool/images.parquet",
            captions=f"{RESULTS}/captions/{{captioner}}/captions.json",
            selection=ancient(f"{SELECTION}/settled/{{pipeline}}.parquet"),
        output:
            model=f"{VLM}/{{captioner}}/model.json",
            training=f"{VLM}/{{captioner}}/training.csv",
            selection=f"{VLM}/{{captioner}}/selection.parquet",
            answers=f"{VLM}/{{captioner}}/answers.parquet",
            scores=f"{VLM}/{{captioner}}/scores.csv",
        log:
            f"{RESULTS}/logs/understanding/{{pipeline}}-{{seed}}/{{captioner}}.log",
        benchmark:
            f"{RESULTS}/logs/understanding/{{pipeline}}-{{seed}}/{{captioner}}.tsv"
        conda:
            "../envs/train.yaml"
        threads: threads_of(lambda wildcards: vlm_pipeline(wildcards).sft.needs)
        resources:
            **train_on(lambda wildcards: vlm_pipeline(wildcards).sft),
        params:
            specs=lambda wildcards: plan.as_params(
                plan.sft_job(CONFIG, wildcards.pipeline, int(wildcards.seed)),
                plan.evaluate_job(CONFIG, **trained_model(wildcards)),
            ),
        message:
            "Train and evaluate {wildcards.pipeline} on {wildcards.captioner}, seed {wildcards.seed}"
        shell:
            "{resources.python} -m workflow_scripts --specs {params.specs:q}"
            " vlm.train --start {input.start} --pool {input.pool} --captions {input.captions}"
            " --selection {input.selection} --kept-selection {output.selection}"
            " --conversations {input.conversations} --out {output.model} --log-table {output.training} --loader-workers {resources.loader_workers}"
            " + vlm.evaluate --model {output.model} --answers {output.answers} --out {output.scores} > {log} 2>&1"
