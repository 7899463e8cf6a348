"""Settings of the blocks world's commands."""

from pydantic import BaseModel, ConfigDict, Field


class World(BaseModel):
    """A made world: how much of everything it holds. Equal settings give equal files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(0, description="seed of everything in the world")
    pool_images: int = Field(1500, gt=0, description="training images to be captioned, all words")
    capeval_images: int = Field(150, gt=0, description="test images with checklists")
    align_conversations: int = Field(1000, gt=0, description="captions for the alignment stage, old words only")
    instruct_conversations: int = Field(1000, gt=0, description="instruction data, old words only")
    understanding_questions: int = Field(240, gt=0, multiple_of=2, description="questions of each benchmark")
    generation_prompts: int = Field(60, gt=0, description="prompts of each generation benchmark")


class VlmBases(BaseModel):
    """How the shipped VLM checkpoints are trained."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(0, description="seed of weights and data")
    vision_steps: int = Field(250, gt=0, description="steps of the vision tower's pre-training, batch 128")
    base_steps: int = Field(800, gt=0, description="steps of the bases on old words, batch 32")
    captioner_steps: tuple[int, int] = Field(
        (20, 80), description="steps after which captioner-early and captioner-late are saved, batch 32"
    )
