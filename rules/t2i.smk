"""Text-to-image models: latents once a pipeline, then fine-tune, generate and score once a captioner."""

T2I = f"{RESULTS}/generation/{{pipeline}}/seed-{{seed}}/{{captioner}}"


rule encode_latents:
    input:
        model=lambda wildcards: files_of(t2i_pipeline(wildcards).model),
        pool=f"{RESULTS}/pool/images.parquet",
    output:
        f"{RESULTS}/generation/{{pipeline}}/latents.json",
    log:
        f"{RESULTS}/logs/generation/{{pipeline}}/latents.log",
    benchmark:
        f"{RESULTS}/logs/generation/{{pipeline}}/latents.tsv"
    conda:
        "../envs/train.yaml"
    threads: threads_of(lambda wildcards: t2i_pipeline(wildcards).latents_needs)
    resources:
        **request(lambda wildcards: t2i_pipeline(wildcards).latents_needs),
    params:
        spec=lambda wildcards: plan.as_param(plan.latents_job(CONFIG, wildcards.pipeline)),
    message:
        "Encode the images of {wildcards.pipeline}"
    shell:
        "{resources.python} -m workflow_scripts.t2i.latents --spec {params.spec:q} --pool {input.pool}"
        " --out {output} > {log} 2>&1"


if CONFIG.jobs == "apart":

    rule finetune_t2i:
        input:
            latents=rules.encode_latents.output,
            captions=f"{RESULTS}/captions/{{captioner}}/captions.json",
            selection=ancient(f"{SELECTION}/settled/{{pipeline}}.parquet"),
        output:
            model=f"{T2I}/model.json",
            training=f"{T2I}/training.csv",
            selection=f"{T2I}/selection.parquet",
        log:
            f"{RESULTS}/logs/generation/{{pipeline}}-{{seed}}/{{captioner}}.finetune.log",
        benchmark:
            f"{RESULTS}/logs/generation/{{pipeline}}-{{seed}}/{{captioner}}.finetune.tsv"
        conda:
            "../envs/train.yaml"
        threads: threads_of(lambda wildcards: t2i_pipeline(wildcards).training.needs)
        resources:
            **train_on(lambda wildcards: t2i_pipeline(wildcards).training),
            embedding_disk_gb=lambda wildcards: t2i_pipeline(wildcards).embedding_disk_gb,
        params:
            spec=lambda wildcards: plan.as_param(plan.finetune_job(CONFIG, wildcards.pipeline, int(wildcards.seed))),
        message:
            "Fine-tune {wildcards.pipeline} on {wildcards.captioner}, seed {wildcards.seed}"
        shell:
            "{resources.srun}{resources.python} {resources.launch} workflow_scripts.t2i.finetune --spec {params.spec:q}"
            " --latents {input.latents} --captions {input.captions}"
            " --selection {input.selection} --kept-selection {output.selection}"
            " --embedding-disk-gb {resources.embedding_disk_gb}"
            " --out {output.model} --log-table {output.training} --loader-workers {resources.loader_workers} > {log} 2>&1"

    rule generate_images:
        input:
            prompts=lambda wildcards: files_of(t2i_benchmark(wildcards)),
            model=rules.finetune_t2i.output.model,
        output:
            f"{T2I}/{{benchmark}}/pictures.parquet",
        log:
            f"{RESULTS}/logs/generation/{{pipeline}}-{{seed}}/{{captioner}}.{{benchmark}}.generate.log",
        benchmark:
            f"{RESULTS}/logs/generation/{{pipeline}}-{{seed}}/{{captioner}}.{{benchmark}}.generate.tsv"
        conda:
            "../envs/train.yaml"
        threads: threads_of(lambda wildcards: t2i_pipeline(wildcards).generate.needs)
        resources:
            **request(lambda wildcards: t2i_pipeline(wildcards).generate.needs),
            launch=lambda wildcards: processes(t2i_pipeline(wildcards).generate.needs.gpus),
            batch=lambda wildcards: t2i_pipeline(wildcards).generate.batch,
        params:
            spec=lambda wildcards: plan.as_param(plan.generate_job(CONFIG, wildcards.pipeline, wildcards.benchmark)),
        message:
            "Make {wildcards.benchmark}'s pictures with {wildcards.pipeline} of {wildcards.captioner}"
        shell:
            "{resources.python} {resources.launch} workflow_scripts.t2i.generate --spec {params.spec:q} --model {input.model}"
            " --batch {resources.batch} --out {output} > {log} 2>&1"

    rule score_images:
        input:
            prompts=lambda wildcards: files_of(t2i_benchmark(wildcards)),
            models=lambda wildcards: files_of(*t2i_benchmark(wildcards).models.values()),
            pictures=rules.generate_images.output,
        output:
            scores=f"{T2I}/{{benchmark}}/scores.csv",
            per_picture=f"{T2I}/{{benchmark}}/picture_scores.parquet",
        log:
            f"{RESULTS}/logs/generation/{{pipeline}}-{{seed}}/{{captioner}}.{{benchmark}}.score.log",
        benchmark:
            f"{RESULTS}/logs/generation/{{pipeline}}-{{seed}}/{{captioner}}.{{benchmark}}.score.tsv"
        conda:
            lambda wildcards: f"../envs/{plan.score_environment(CONFIG, wildcards.benchmark)}.yaml"
        threads: threads_of(lambda wildcards: CONFIG.generation.score_needs)
        resources:
            **request(
                lambda wildcards: CONFIG.generation.score_needs,
                python=lambda wildcards: python_of(plan.score_environment(CONFIG, wildcards.benchmark)),
            ),
            serving=plan.as_param(plan.score_serving(CONFIG)),
        params:
            spec=lambda wildcards: plan.as_param(plan.score_images_job(CONFIG, wildcards.benchmark)),
        message:
            "Score {wildcards.benchmark} of {wildcards.pipeline} of {wildcards.captioner}"
        shell:
            "{resources.python} -m workflow_scripts.t2i.score --spec {params.spec:q} --serving {resources.serving:q}"
            " --pictures {input.pictures} --out {output.scores} --per-picture {output.per_picture} > {log} 2>&1"

else:

    BENCHMARKS = list(CONFIG.generation.benchmarks)

    rule finetune_and_measure_t2i:
        input:
            prompts=files_of(*CONFIG.generation.benchmarks.values()),
            models=files_of(*(model for one in CONFIG.generation.benchmarks.values() for model in one.models.values())),
            latents=rules.encode_latents.output,
            captions=f"{RESULTS}/captions/{{captioner}}/captions.json",
            selection=ancient(f"{SELECTION}/settled/{{pipeline}}.parquet"),
        output:
            model=f"{T2I}/model.json",
            training=f"{T2I}/training.csv",
            selection=f"{T2I}/selection.parquet",
            pictures=[f"{T2I}/{benchmark}/pictures.parquet" for benchmark in BENCHMARKS],
            scores=[f"{T2I}/{benchmark}/scores.csv" for benchmark in BENCHMARKS],
            per_picture=[f"{T2I}/{benchmark}/picture_scores.parquet" for benchmark in BENCHMARKS],
        log:
            f"{RESULTS}/logs/generation/{{pipeline}}-{{seed}}/{{captioner}}.log",
        benchmark:
            f"{RESULTS}/logs/generation/{{pipeline}}-{{seed}}/{{captioner}}.tsv"
        conda:
            "../envs/train.yaml"
        threads: threads_of(lambda wildcards: t2i_pipeline(wildcards).training.needs)
        resources:
            **train_on(lambda wildcards: t2i_pipeline(wildcards).training),
            embedding_disk_gb=lambda wildcards: t2i_pipeline(wildcards).embedding_disk_gb,
            batch=lambda wildcards: t2i_pipeline(wildcards).generate.batch,
        params:
            specs=lambda wildcards: plan.as_params(*finetune_and_measure_jobs(wildcards)),
        message:
            "Fine-tune and measure {wildcards.pipeline} on {wildcards.captioner}, seed {wildcards.seed}"
        shell:
            "{resources.python} -m workflow_scripts --specs {params.specs:q}"
            " t2i.finetune --latents {input.latents} --captions {input.captions}"
            " --selection {input.selection} --kept-selection {output.selection}"
            " --embedding-disk-gb {resources.embedding_disk_gb}"
            " --out {output.model} --log-table {output.training} --loader-workers {resources.loader_workers}"
            f"{measure_commands()} > {{log}} 2>&1"
