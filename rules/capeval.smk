"""Coverage and precision: caption CAPEval's images, judge every checklist item, count."""


rule caption_capeval:
    input:
        model=captioner_capeval_files,
        data=files_of(CONFIG.capeval.data),
    output:
        f"{RESULTS}/capeval/{{captioner}}/captions.parquet",
    log:
        f"{RESULTS}/logs/capeval/{{captioner}}/caption.log",
    benchmark:
        f"{RESULTS}/logs/capeval/{{captioner}}/caption.tsv"
    conda:
        conda_of(captioner_of)
    threads: threads_of(captioner_needs)
    resources:
        **serve(captioner_of),
        data=str(plan.judge_job(CONFIG).data.path),
    params:
        spec=lambda wildcards: plan.as_param(plan.caption_job(CONFIG, wildcards.captioner, capeval=True)),
    message:
        "Caption CAPEval's images with {wildcards.captioner}"
    shell:
        "{resources.python} -m workflow_scripts.capeval.caption --spec {params.spec:q} --serving {resources.serving:q}"
        " --data {resources.data} --out {output} > {log} 2>&1"


rule caption_baselines:
    input:
        data=files_of(CONFIG.capeval.data),
        code=["workflow_scripts/capeval/baselines.py", "workflow_scripts/capeval/benchmark.py"],
    output:
        expand(f"{RESULTS}/capeval/{{baseline}}/captions.parquet", baseline=BASELINES),
    log:
        f"{RESULTS}/logs/capeval/caption_baselines.log",
    benchmark:
        f"{RESULTS}/logs/capeval/caption_baselines.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
        python=PYTHON,
    params:
        spec=plan.as_param(plan.baselines_job(CONFIG)),
    message:
        "Captions of the baselines: people's, people's of another image, one sentence"
    shell:
        "{resources.python} -m workflow_scripts.capeval.baselines --spec {params.spec:q} --out-dir {RESULTS}/capeval"
        " > {log} 2>&1"


rule judge_captions:
    input:
        model=files_of(CONFIG.capeval.judge.model, CONFIG.capeval.data),
        captions=f"{RESULTS}/capeval/{{captioner}}/captions.parquet",
    output:
        verdicts=f"{RESULTS}/capeval/{{captioner}}/verdicts.parquet",
        votes=f"{RESULTS}/capeval/{{captioner}}/votes.parquet",
        flagged=f"{RESULTS}/capeval/{{captioner}}/flagged.csv",
    log:
        f"{RESULTS}/logs/capeval/{{captioner}}/judge.log",
    benchmark:
        f"{RESULTS}/logs/capeval/{{captioner}}/judge.tsv"
    wildcard_constraints:
        captioner=one_of(plan.judged_sources(CONFIG)),
    conda:
        conda_of(judge_of)
    threads: threads_of(lambda wildcards: CONFIG.capeval.judge.needs)
    resources:
        **serve(judge_of),
    params:
        spec=plan.as_param(plan.judge_job(CONFIG)),
    message:
        "Judge the captions of {wildcards.captioner}"
    shell:
        "{resources.python} -m workflow_scripts.capeval.judge --spec {params.spec:q} --serving {resources.serving:q}"
        " --captions {input.captions} --out {output.verdicts} --votes {output.votes} --flagged {output.flagged}"
        " > {log} 2>&1"


# A second opinion on captions that are judged: another judge's, or the same judge's once more (`retest`).
use rule judge_captions as judge_captions_again with:
    input:
        model=lambda wildcards: files_of(judge_again(wildcards).model, CONFIG.capeval.data),
        captions=f"{RESULTS}/capeval/{{captioner}}/captions.parquet",
    output:
        verdicts=f"{RESULTS}/capeval/{{captioner}}/{{again}}/verdicts.parquet",
        votes=f"{RESULTS}/capeval/{{captioner}}/{{again}}/votes.parquet",
        flagged=f"{RESULTS}/capeval/{{captioner}}/{{again}}/flagged.csv",
    log:
        f"{RESULTS}/logs/capeval/{{captioner}}/judge-{{again}}.log",
    benchmark:
        f"{RESULTS}/logs/capeval/{{captioner}}/judge-{{again}}.tsv"
    wildcard_constraints:
        captioner=one_of(plan.judged_sources(CONFIG)),
        again="second|retest",
    conda:
        conda_of(judge_again)
    threads: threads_of(judge_again_needs)
    resources:
        **serve(judge_again),
    params:
        spec=lambda wildcards: plan.as_param(judge_again_job(wildcards)),
    message:
        "Judge the captions of {wildcards.captioner} again: {wildcards.again}"


rule judge_canaries:
    input:
        model=files_of(CONFIG.capeval.judge.model),
    output:
        f"{RESULTS}/capeval/canaries.csv",
    log:
        f"{RESULTS}/logs/capeval/canaries.log",
    benchmark:
        f"{RESULTS}/logs/capeval/canaries.tsv"
    conda:
        conda_of(judge_of)
    threads: threads_of(lambda wildcards: CONFIG.capeval.judge.needs)
    resources:
        **serve(judge_of),
    params:
        spec=plan.as_param(plan.judge_job(CONFIG)),
    message:
        "Ask the judge questions with known answers"
    shell:
        "{resources.python} -m workflow_scripts.capeval.canaries --spec {params.spec:q} --serving {resources.serving:q}"
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
    wildcard_constraints:
        captioner=one_of(plan.judged_sources(CONFIG)),
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


rule collect_baselines:
    input:
        scores=expand(f"{RESULTS}/capeval/{{baseline}}/scores.csv", baseline=BASELINES),
        code="workflow_scripts/collect/baselines.py",
    output:
        f"{RESULTS}/capeval_baselines.csv",
    log:
        f"{RESULTS}/logs/collect_baselines.log",
    benchmark:
        f"{RESULTS}/logs/collect_baselines.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
        python=PYTHON,
    message:
        "Collect the baselines"
    shell:
        "{resources.python} -m workflow_scripts.collect.baselines --tables {input.scores} --out {output} > {log} 2>&1"


rule measure_reliability:
    input:
        verdicts=compared_verdicts(),
        labels=CONFIG.capeval.labels or [],
        code=["workflow_scripts/capeval/reliability.py", "workflow_scripts/capeval/labels.py"],
    output:
        reliability=f"{RESULTS}/reliability.csv",
        confusion=f"{RESULTS}/confusion.csv",
    log:
        f"{RESULTS}/logs/measure_reliability.log",
    benchmark:
        f"{RESULTS}/logs/measure_reliability.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
        python=PYTHON,
    params:
        spec=plan.as_param(plan.reliability_job(CONFIG)),
    message:
        "Agreement of the judgements"
    shell:
        "{resources.python} -m workflow_scripts.capeval.reliability --spec {params.spec:q} --folder {RESULTS}/capeval"
        " --out {output.reliability} --confusion {output.confusion} > {log} 2>&1"


rule diagnose_captions:
    input:
        captions=expand(f"{RESULTS}/capeval/{{captioner}}/captions.parquet", captioner=CONFIG.captioners),
        verdicts=expand(f"{RESULTS}/capeval/{{captioner}}/verdicts.parquet", captioner=CONFIG.captioners),
        code="workflow_scripts/capeval/diagnose.py",
    output:
        expand(f"{RESULTS}/capeval/{{captioner}}/diagnosis.csv", captioner=CONFIG.captioners),
    log:
        f"{RESULTS}/logs/diagnose_captions.log",
    benchmark:
        f"{RESULTS}/logs/diagnose_captions.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
        python=PYTHON,
    params:
        spec=plan.as_param(plan.diagnose_job(CONFIG)),
    message:
        "What each captioner misses and gets wrong"
    shell:
        "{resources.python} -m workflow_scripts.capeval.diagnose --spec {params.spec:q} --folder {RESULTS}/capeval"
        " > {log} 2>&1"
