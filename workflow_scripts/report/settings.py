"""Settings of the report."""

from pydantic import BaseModel, ConfigDict, Field

from workflow_scripts.analysis.settings import AnalysisJob


class ReportJob(BaseModel):
    """`--spec` of the report: what the tables cannot say themselves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage_version: int = 1
    sweep: str = Field(description="name of the sweep")
    published: bool = Field(False, description="scores come from published tables: no captions, pictures or training")
    world: bool = Field(False, description="the sweep's data is the blocks world; the page says what that cannot show")
    train_on: str = Field("intersection", description="the images that models are trained on, or each captioner's own")
    analysis: AnalysisJob = Field(description="the regression's settings: pipelines, benchmarks, seeds, named variants")
    num_examples: int = Field(4, ge=0, description="example images with captions and checklists")
    num_prompts: int = Field(4, ge=0, description="prompts a pipeline whose pictures are shown for every captioner")
    conversations: list[str] = Field([], description="data sets of conversations that models are trained on")
    licences: dict[str, str] = Field({}, description="licence of each model and data set, by its name")
