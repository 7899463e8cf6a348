"""Which captioner should write the captions that we train on? A sweep is a config, a config is this DAG."""

from workflow_scripts import plan
from workflow_scripts.analysis.settings import figure_names
from workflow_scripts.assets.lockfile import read_lock
from workflow_scripts.config import check_config, read_yaml
from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json
from workflow_scripts.spec import BASELINES, INTERSECTION

# A config file given on the command line replaces the default one: merged, two sweeps would mix without a word.
if not workflow.overwrite_configfiles:

    configfile: "config.yaml"


include: "rules/common.smk"


CONFIG = checked_config()
RESULTS = str(CONFIG.results)


wildcard_constraints:
    asset=one_of(plan.assets_of(CONFIG)),
    captioner=one_of(CONFIG.captioners),
    seed=one_of(CONFIG.seeds),
    selection=one_of([INTERSECTION, *CONFIG.captioners]),
    pipeline=one_of(plan.pipelines_of(CONFIG)),
    job=r"\d{5}",


if CONFIG.published:

    include: "rules/published.smk"

else:

    include: "rules/assets.smk"
    include: "rules/pool.smk"
    include: "rules/captions.smk"
    include: "rules/capeval.smk"
    include: "rules/vlm.smk"
    include: "rules/t2i.smk"
    include: "rules/collect.smk"


include: "rules/analysis.smk"


rule all:
    default_target: True
    input:
        final_outputs(),
