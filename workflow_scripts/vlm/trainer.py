"""The Transformers `Trainer` for LLaVA."""

from pathlib import Path

from workflow_scripts.pace import PacedTrainer
from workflow_scripts.vlm.model import read_weights


class LlavaTrainer(PacedTrainer):
    """Checkpoints hold LLaVA's weights under the names of its published folders; `from_pretrained` knows both kinds of
    names, `Trainer` does not, and would only warn and go on with the weights that it started from."""

    def _load_from_checkpoint(self, resume_from_checkpoint, model=None):
        self.model.load_state_dict(read_weights(Path(resume_from_checkpoint)).state_dict())

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        """The batches of a step, and how many tokens are learnt: at least 1, so that the loss of a step whose answers
        all lie beyond `max_length` is 0, and not 0 / 0."""
        batches, num_learnt = super().get_batch_samples(epoch_iterator, num_batches, device)
        return batches, num_learnt if num_learnt is None else num_learnt.clamp(min=1)
