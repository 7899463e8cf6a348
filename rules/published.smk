"""Published tables in place of measurements: real captioners, and only the analysis runs."""


rule read_published:
    input:
        tables=[
            f"{CONFIG.published.tables}/{name}.csv" for name in ("captioners", "table3_capeval", "table4_benchmarks")
        ],
        code="workflow_scripts/analysis/published.py",
    output:
        captioners=f"{RESULTS}/captioners.csv",
        capeval=f"{RESULTS}/capeval.csv",
        scores=f"{RESULTS}/scores.csv",
    log:
        f"{RESULTS}/logs/read_published.log",
    benchmark:
        f"{RESULTS}/logs/read_published.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=5,
        python=PYTHON,
    params:
        spec=plan.as_param(CONFIG.published),
    message:
        "Read the published tables in {CONFIG.published.tables}"
    shell:
        "{resources.python} -m workflow_scripts.analysis.published --spec {params.spec:q}"
        " --captioners {output.captioners} --capeval {output.capeval} --scores {output.scores} > {log} 2>&1"
