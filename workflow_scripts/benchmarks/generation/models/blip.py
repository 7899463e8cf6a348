"""BLIP-VQA's probability of yes, as T2I-CompBench++ asks for it.

What transformers' port of the model does otherwise than the authors' code is put right: pictures have 480 pixels a side
again, the question begins with [ENC] and not with [CLS], layer norms add what they did, and the answer's first token is
looked at, not a whole one.
The port scaled the positions from 480 to 384 pixels; they are scaled back, which does not restore them to the last bit.
A folder that has them for 480 is used as it is.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from PIL import Image

from workflow_scripts.benchmarks.generation.models.loading import CLIP_MEAN, CLIP_STD, Batches, load, pixels
from workflow_scripts.errors import UserError
from workflow_scripts.spec import ScorerModel

SIDE = 480  # pixels
NORM_EPS = 1e-6  # of the vision tower's layer norms; the port has 1e-5
ENCODE, DECODE = 30523, 30522  # the tokens that begin a question and an answer
YES, NO = 2748, 2053
MAX_WORDS, MAX_TOKENS = 50, 35  # of a question


class YesProbability:
    """T2I-CompBench++'s attribute binding."""

    def __init__(self, source: ScorerModel, batch: int, serving: Any = None) -> None:
        from transformers import AutoTokenizer, BlipForQuestionAnswering

        self._model, self._in_batches = load(source, BlipForQuestionAnswering), Batches(batch, source.path)
        self._tokenizer = AutoTokenizer.from_pretrained(source.path, local_files_only=True)
        if self._tokenizer.convert_tokens_to_ids(["yes", "no"]) != [YES, NO]:
            raise UserError(f"{source.path}: its tokens yes and no are not {YES} and {NO}: this is no BLIP-VQA")
        for module in self._model.vision_model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = NORM_EPS
        known = self._model.config.text_config.vocab_size
        if known <= ENCODE:
            raise UserError(f"{source.path}: knows {known} tokens, BLIP-VQA has {ENCODE + 1}")

    def probabilities(self, asked: Sequence[tuple[Image.Image, str]]) -> list[float]:
        """P(yes) / (P(yes) + P(no)) at the answer's first token, 0-1. A picture is encoded once."""
        tokens = [self._tokens(question) for _, question in asked]
        places: dict[int, list[int]] = {}
        for place, (picture, _) in enumerate(asked):
            places.setdefault(id(picture), []).append(place)
        found: dict[int, float] = {}

        def ask(groups: Sequence[list[int]]) -> list[list[int]]:
            """Put the questions at these places, each group about one picture."""
            seen_NPD = self._encode([asked[group[0]][0] for group in groups])
            row_of = {place: row for row, group in enumerate(groups) for place in group}
            for alike in _of_one_length(row_of, tokens):
                for start in range(0, len(alike), self._in_batches.size):
                    part = alike[start : start + self._in_batches.size]
                    values = self._ask(seen_NPD[[row_of[place] for place in part]], [tokens[place] for place in part])
                    found.update(zip(part, values, strict=True))
            return list(groups)

        self._in_batches(list(places.values()), ask)
        return [found[place] for place in range(len(asked))]

    def _tokens(self, question: str) -> list[int]:
        tokens = self._tokenizer(cleaned(question), truncation=True, max_length=MAX_TOKENS)["input_ids"]
        return [ENCODE, *tokens[1:]]

    @torch.inference_mode()
    def _encode(self, pictures: Sequence[Image.Image]) -> torch.Tensor:
        """(N, 1 + patches, dimensions)."""
        scaled = [picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC) for picture in pictures]
        inputs = torch.stack([pixels(picture, CLIP_MEAN, CLIP_STD) for picture in scaled]).to(self._model.device)
        return self._model.vision_model(pixel_values=inputs, interpolate_pos_encoding=True).last_hidden_state

    @torch.inference_mode()
    def _ask(self, seen_NPD: torch.Tensor, questions: Sequence[list[int]]) -> list[float]:
        """The probabilities for questions of one length, each with its picture."""
        tokens = torch.tensor(questions, device=seen_NPD.device)
        question = self._model.text_encoder(input_ids=tokens, encoder_hidden_states=seen_NPD).last_hidden_state
        start = torch.full((len(questions), 1), DECODE, device=seen_NPD.device)
        logits = self._model.text_decoder(input_ids=start, encoder_hidden_states=question).logits[:, 0]
        return (logits[:, YES] - logits[:, NO]).sigmoid().tolist()


def _of_one_length(places: Iterable[int], tokens: Sequence[list[int]]) -> Iterable[list[int]]:
    """Places of questions by their number of tokens: transformers' decoder looks at padding, so there must be none."""
    by_length: dict[int, list[int]] = {}
    for place in places:
        by_length.setdefault(len(tokens[place]), []).append(place)
    return by_length.values()


def cleaned(question: str) -> str:
    """A question as the authors' code hands it to the tokenizer."""
    words = re.sub(r'[.!"()*#:;~]', "", question.lower()).rstrip(" ").split(" ")
    return " ".join(words[:MAX_WORDS])
