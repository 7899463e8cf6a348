"""The last tables: regression, sensitivity, figures, and the page that people read."""

FIGURES = figure_names(CONFIG.analysis)


rule regress:
    message:
        "Regress every outcome on coverage and precision"
    input:
        tables=[f"{RESULTS}/{table}.csv" for table in ("capeval", "scores", "captioners")],
        aggregates=printed_aggregates(),
        code=code_of("analysis"),
    output:
        regression=f"{RESULTS}/regression.csv",
        models=f"{RESULTS}/regression_models.csv",
        influence=f"{RESULTS}/regression_influence.csv",
        sensitivity=f"{RESULTS}/regression_sensitivity.csv",
        summary=f"{RESULTS}/summary.json",
    log:
        f"{RESULTS}/logs/regress.log",
    benchmark:
        f"{RESULTS}/logs/regress.tsv"
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
        python=PYTHON,
    params:
        spec=plan.as_param(plan.analysis_job(CONFIG)),
    shell:
        "{resources.python} -m workflow_scripts.analysis.regress --spec {params.spec:q}"
        " --capeval {input.tables[0]} --scores {input.tables[1]} --captioners {input.tables[2]}"
        " $([ -z '{input.aggregates}' ] || echo --aggregates {input.aggregates})"
        " --regression {output.regression} --models {output.models} --influence {output.influence}"
        " --sensitivity {output.sensitivity} --summary {output.summary} > {log} 2>&1"
