"""The Transformers `Trainer` for LLaVA."""

from pathlib import Path

from workflow_scripts.pace import PacedTrainer
from workflow_scripts.vlm.model import read_weights


class LlavaTrainer(PacedTrainer):
    """Checkpoints hold LLaVA's weights under the names of its published folders; `from_pretrained` knows both kinds of
    names, `Trainer` does not, and would only warn and go on with the weights that it started from."""

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        self.model.load_state_dict(read_weights(Path(resume_from_checkpoint)).state_dict())
