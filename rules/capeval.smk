"""Coverage and precision: caption CAPEval's images, judge every checklist item, count."""


rule caption_capeval:
    input:
        model=lambda wildcards: files_of(CONFIG.captioners[wildcards.captioner].model),
        data=files_of(CONFIG.capeval.data),
    output:
        f"{RESULTS}/capeval/{{captioner}}/captions.parquet",
    log:
        f"{RESULTS}/logs/capeval/{{captioner}}/caption.log",
    benchmark:
        f"{RESULTS}/logs/capeval/{{captioner}}/caption.tsv"
    conda:
        "../envs/serve.yaml"
    threads: threads_of(captioner_needs)
    resources:
        **request(captioner_needs),
        data=str(plan.judge_job(CONFIG).data.path),
    params:
        spec=lambda wildcards: plan.as_param(plan.caption_job(CONFIG, wildcards.captioner, capeval=True)),
    message:
        "Caption CAPEval's images with {wildcards.captioner}"
    shell:
        "{resources.python} -m workflow_scripts.capeval.caption --spec {params.spec:q} --data {resources.data}"
        " --out {output} > {log} 2>&1"


rule judge_captions:
    input:
        model=files_of(CONFIG.capeval.judge.model, CONFIG.capeval.data),
        captions=f"{RESULTS}/capeval/{{captioner}}/captions.parquet",
    output:
        f"{RESULTS}/capeval/{{captioner}}/verdicts.parquet",
    log:
        f"{RESULTS}/logs/capeval/{{captioner}}/judge.log",
    benchmark:
        f"{RESULTS}/logs/capeval/{{captioner}}/judge.tsv"
    conda:
        "../envs/serve.yaml"
    threads: threads_of(lambda wildcards: CONFIG.capeval.judge.needs)
    resources:
        **request(lambda wildcards: CONFIG.capeval.judge.needs),
    params:
        spec=plan.as_param(plan.judge_job(CONFIG)),
    message:
        "Judge the captions of {wildcards.captioner}"
    shell:
        "{resources.python} -m workflow_scripts.capeval.judge --spec {params.spec:q} --captions {input.captions}"
        " --out {output} > {log} 2>&1"


rule score_captions:
    input:
        verdicts=f"{RESULTS}/capeval/{{captioner}}/verdicts.parquet",
        code=["workflow_scripts/capeval/score.py", "workflow_scripts/capeval/benchmark.py"],
    output:
        f"{RESULTS}/capeval/{{captioner}}/scores.csv",
    log:
        f"{RESULTS}/logs/capeval/{{captioner}}/score.log",
    benchmark:
        f"{RESULTS}/logs/capeval/{{captioner}}/score.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=lambda wildcards, attempt: 20 * attempt,
        python=PYTHON,
    params:
        spec=lambda wildcards: plan.as_param(plan.score_captions_job(CONFIG, wildcards.captioner)),
    message:
        "Coverage and precision of {wildcards.captioner}"
    shell:
        "{resources.python} -m workflow_scripts.capeval.score --spec {params.spec:q} --verdicts {input.verdicts}"
        " --out {output} > {log} 2>&1"
