"""The last tables: regression, sensitivity, figures, and the page that people read."""

FIGURES = figure_names(CONFIG.analysis)


rule regress:
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
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
        python=PYTHON,
    params:
        spec=plan.as_param(plan.analysis_job(CONFIG)),
    message:
        "Regress every outcome on coverage and precision"
    shell:
        "{resources.python} -m workflow_scripts.analysis.regress --spec {params.spec:q}"
        " --capeval {input.tables[0]} --scores {input.tables[1]} --captioners {input.tables[2]}"
        " $([ -z '{input.aggregates}' ] || echo --aggregates {input.aggregates})"
        " --regression {output.regression} --models {output.models} --influence {output.influence}"
        " --sensitivity {output.sensitivity} --summary {output.summary} > {log} 2>&1"


rule plot:
    input:
        tables=rules.regress.input.tables,
        aggregates=rules.regress.input.aggregates,
        regression=rules.regress.output.regression,
        influence=rules.regress.output.influence,
        code=[*code_of("analysis"), "workflow_scripts/drawing.py"],
    output:
        expand(f"{RESULTS}/figures/{{figure}}.{{suffix}}", figure=FIGURES, suffix=["svg", "png"]),
    log:
        f"{RESULTS}/logs/plot.log",
    benchmark:
        f"{RESULTS}/logs/plot.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
        python=PYTHON,
    params:
        spec=plan.as_param(plan.analysis_job(CONFIG)),
    message:
        "Draw the figures"
    shell:
        "{resources.python} -m workflow_scripts.analysis.plot --spec {params.spec:q}"
        " --capeval {input.tables[0]} --scores {input.tables[1]} --captioners {input.tables[2]}"
        " $([ -z '{input.aggregates}' ] || echo --aggregates {input.aggregates})"
        " --regression {input.regression} --influence {input.influence} --out-dir {RESULTS}/figures > {log} 2>&1"


rule write_report:
    input:
        regression=rules.regress.output,
        figures=rules.plot.output,
        aggregates=rules.regress.input.aggregates,
        judging=judging_tables(),
        captions=caption_tables(),
        conversations=all_conversations(),
        code=code_of("report"),
        templates=[str(path) for path in sorted(Path("workflow_scripts/report/templates").rglob("*.*"))],
    output:
        f"{RESULTS}/report.html",
    log:
        f"{RESULTS}/logs/write_report.log",
    benchmark:
        f"{RESULTS}/logs/write_report.tsv"
    localrule: True
    conda:
        "../envs/core.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
        python=PYTHON,
    params:
        spec=plan.as_param(plan.report_job(CONFIG)),
    message:
        "Write the report"
    shell:
        "{resources.python} -m workflow_scripts.report.write --spec {params.spec:q}"
        " --results {RESULTS} --figures {RESULTS}/figures"
        " $([ -z '{input.aggregates}' ] || echo --aggregates {input.aggregates}) --out {output} > {log} 2>&1"
