"""Compute the numbers that the regression's tests compare with, by pyfixest, from the published tables.

    python tests/golden/make_pyfixest.py

Writes tests/golden/pyfixest.json. Needs pyfixest 0.60.0 and wildboottest 0.3.2 in an environment of their own. No
code of this project is used. Small-sample factors are switched off (pyfixest multiplies HC3 by n / (n - k) by default).
The wild bootstrap is the one that pyfixest has with all 2^10 sign vectors: each captioner a cluster of its own, null
imposed, studentised without leverage correction.
"""

import json
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import pyfixest as pf

TABLES = Path(__file__).parents[2] / "resources" / "published"


def main() -> None:
    """Fit every pipeline's mean of benchmarks."""
    captioners = pd.read_csv(TABLES / "captioners.csv")[["captioner", "family"]]
    capeval = pd.read_csv(TABLES / "table3_capeval.csv")[["captioner", "C", "P"]]
    scores = pd.read_csv(TABLES / "table4_benchmarks.csv")
    plain, numbers = pf.ssc(k_adj=False, G_adj=False), {}
    for pipeline, rows in scores.groupby("pipeline"):
        means = rows.groupby("captioner").score.mean().rename("y").reset_index()
        data = captioners.merge(capeval, on="captioner").merge(means, on="captioner")
        data["own"] = range(len(data))
        hc3 = pf.feols("y ~ C + P", data, vcov="HC3", ssc=plain)
        crv3 = pf.feols("y ~ C + P", data, vcov={"CRV3": "family"}, ssc=plain)
        wild = {
            term: hc3.wildboottest(param=term, reps=9999, cluster="own", bootstrap_type="11", seed=1)["Pr(>|t|)"]
            for term in ("C", "P")
        }
        numbers[pipeline] = {
            "estimate": hc3.coef().to_dict(),
            "hc3_std_error": hc3.se().to_dict(),
            "crv3_family_std_error": crv3.se().to_dict(),
            "wild_hc1_p_value": {term: float(p) for term, p in wild.items()},
        }
    made_by = {name: version(name) for name in ("pyfixest", "wildboottest", "numpy", "pandas")}
    text = json.dumps({"made_by": made_by, "pipelines": numbers}, indent=1)
    (Path(__file__).parent / "pyfixest.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
