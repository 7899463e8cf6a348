"""The image pool: which images every captioner describes, in one order."""


rule build_pool:
    input:
        sources=files_of(*CONFIG.pool.sources.values()),
    output:
        images=f"{RESULTS}/pool/images.parquet",
        left_out=f"{RESULTS}/pool/left_out.csv",
    log:
        f"{RESULTS}/logs/build_pool.log",
    benchmark:
        f"{RESULTS}/logs/build_pool.tsv"
    conda:
        "../envs/core.yaml"
    threads: threads_of(lambda wildcards: CONFIG.pool.needs)
    resources:
        **request(lambda wildcards: CONFIG.pool.needs),
    params:
        spec=plan.as_param(plan.pool_job(CONFIG)),
    message:
        "Sample the image pool"
    shell:
        "{resources.python} -m workflow_scripts.pool.build --spec {params.spec:q} --threads {threads}"
        " --out {output.images} --left-out {output.left_out} > {log} 2>&1"
