"""DPG-Bench's questions to a vision-language model through vLLM, beside the same model through Transformers."""

from PIL import Image

from workflow_scripts.benchmarks.generation.models.engine import QuestionAnswerer, first_word
from workflow_scripts.plan import ServingJob
from workflow_scripts.spec import ScorerModel

ASKED = [
    (Image.new("RGB", (64 + 32 * number, 64), color), question)
    for number, color in enumerate(("red", "green"))
    for question in ("Is there a stop sign?", "Is the stop sign red?", "Are there two dogs in the green field?")
]


def test_a_model_behind_vllm_says_one_word_a_question(tiny_model):
    """Random models say any word; what both engines say of the same picture and question is the same."""
    said = {}
    for through in ("vllm", "transformers"):
        source = ScorerModel(through=through, path=tiny_model("qwen3-vl"))
        said[through] = QuestionAnswerer(source, 4, ServingJob()).answers(ASKED)
    assert len(said["vllm"]) == len(ASKED) and all(word == first_word(word) for word in said["vllm"])
    assert said["vllm"] == said["transformers"]
