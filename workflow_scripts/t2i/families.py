"""The two families of text-to-image models: how text is encoded, how pictures become latents, the transformer's call.

Both are diffusers pipelines, read from a folder that `DiffusionPipeline.from_pretrained` reads, part by part: a stage
holds the weights that it uses and no others. Legend of shapes: B batch, C latent channels, h w latent size in latent
pixels, L text tokens, D text width.
"""

import gc
import importlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Literal

import diffusers
import torch
import transformers
from accelerate import init_empty_weights
from PIL import Image
from safetensors import safe_open

from workflow_scripts.errors import UserError
from workflow_scripts.files import read_json
from workflow_scripts.model_folders import weight_files
from workflow_scripts.spec import Source

Text = dict[str, torch.Tensor]  # the text as keyword arguments of the transformer

_COUNTED_AT_ONCE = 1000  # texts


class Family(ABC):
    """A pipeline and what training and generation need of it. `device` is where its parts compute."""

    pipeline_class: str  # in diffusers
    text_encoders: tuple[str, ...]
    optional_parts: tuple[str, ...] = ()  # that a pipeline's folder may lack

    def __init__(self, pipe: diffusers.DiffusionPipeline, max_text_tokens: int) -> None:
        self.pipe, self.max_text_tokens = pipe, max_text_tokens
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        pipe.set_progress_bar_config(disable=True)
        # The training table of 1000 levels, highest noise first; making pictures overwrites the scheduler's own.
        self._sigmas = pipe.scheduler.sigmas.clone()

    @classmethod
    def open(cls, source: Source, max_text_tokens: int = 1) -> "Family":
        """The pipeline folder `source.path` without weights: tokenizers, and configs of the other parts.

        Raises UserError where the folder is none of this family."""
        folder = Path(source.path)
        index = read_json(folder / "model_index.json")
        if index.get("_class_name") != cls.pipeline_class:
            raise UserError(f"{folder}: a {index.get('_class_name')}, expected a {cls.pipeline_class}")
        diffusers.logging.set_verbosity_error()  # it warns of every text that it cuts; those are counted here
        diffusers.logging.disable_progress_bar()
        transformers.utils.logging.disable_progress_bar()
        _import_own_classes(index)
        given: dict[str, Any] = {name: None for name in cls.optional_parts if not (folder / name).is_dir()}
        given |= dict.fromkeys(cls.text_encoders)
        for name in ("transformer", "vae"):
            model_class = _class_of(index[name])
            with init_empty_weights():
                given[name] = model_class.from_config(model_class.load_config(folder / name))
        pipe = getattr(diffusers, cls.pipeline_class).from_pretrained(folder, local_files_only=True, **given)
        made = cls(pipe, max_text_tokens)
        made._folder, made._index = folder, index
        return made

    @classmethod
    def load(
        cls,
        source: Source,
        max_text_tokens: int = 1,
        transformer: Path | None = None,
        precision: Literal["bf16", "fp32"] = "fp32",
    ) -> "Family":
        """The whole pipeline on its device, with the fine-tuned transformer of the folder `transformer` in place of
        its own. Raises UserError as `open` does."""
        made = cls.open(source, max_text_tokens)
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        made.load_text_encoders(dtype)
        for name, folder in (("vae", None), ("transformer", transformer)):
            made.load_part(name, dtype, folder).to(made.device)
        return made

    def load_part(self, name: str, dtype: torch.dtype = torch.float32, folder: Path | None = None) -> torch.nn.Module:
        """Read the weights of a part into host memory, from `folder` where its own are not wanted. What of
        a transformer is no weight (SD3's table of positions) is read in float32 whatever `dtype`: it is not rounded."""
        folder = folder or self._folder / name
        part = _class_of(self._index[name]).from_pretrained(folder, dtype=dtype)
        if name == "transformer":
            buffers = dict(part.named_buffers())
            for path in weight_files(folder):
                with safe_open(path, "pt") as file:
                    for key in buffers.keys() & file.keys():
                        buffers[key].data = file.get_tensor(key).float()
        setattr(self.pipe, name, part)
        return part

    def load_text_encoders(self, dtype: torch.dtype = torch.float32) -> None:
        """Read the text encoders that the folder has; encoded texts have their number format."""
        for name in self.text_encoders:
            if name not in self.optional_parts or (self._folder / name).is_dir():
                self.load_part(name, dtype).to(self.device)

    def free_text_encoders(self) -> None:
        """Let go of the text encoders and of the memory that they took on the device."""
        for name in self.text_encoders:
            setattr(self.pipe, name, None)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def sigmas(self, u: torch.Tensor) -> torch.Tensor:
        """The noise levels of u in 0-1: float32, high for low u. The scheduler's table of 1000 levels s holds them:
        for SD3 shifted to 3 s / (1 + 2 s), for Qwen-Image (whose shift depends on the size) as they are."""
        return self._sigmas[(u * len(self._sigmas)).long().clamp(max=len(self._sigmas) - 1)]

    @property
    @abstractmethod
    def latent_channels(self) -> int:
        """C."""

    @abstractmethod
    def encode_images(self, pixels_B3HW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Pixels of -1 to 1 -> mean and log-variance of the autoencoder's posterior, float32 (B, C, h, w)."""

    @abstractmethod
    def normalise(self, latents_BChw: torch.Tensor) -> torch.Tensor:
        """The autoencoder's latents as the transformer sees them."""

    @abstractmethod
    def encode_texts(self, texts: list[str]) -> list[Text]:
        """Each text as the transformer's keyword arguments, without the batch axis and without padding."""

    @abstractmethod
    def collate(self, texts: list[Text]) -> Text:
        """Encoded texts as one batch."""

    def num_image_tokens(self, height: int, width: int) -> int:
        """How many tokens the transformer makes of latents of this size."""
        return height * width // self.pipe.transformer.config.patch_size**2

    @abstractmethod
    def text_tokens(self, texts: list[str]) -> dict[str, tuple[int, list[int]]]:
        """For each text encoder, by its name in tables, its limit and how many tokens each text has, uncut."""

    @abstractmethod
    def num_text_tokens(self, tokens: dict[str, tuple[int, list[int]]]) -> list[int]:
        """How many tokens the transformer reads of each of the texts whose `text_tokens` these are."""

    @abstractmethod
    def encoded_size(self, tokens: dict[str, tuple[int, list[int]]]) -> int:
        """How many numbers the encoded texts hold whose `text_tokens` these are. Needs no weights."""

    @abstractmethod
    def velocity(
        self, transformer: torch.nn.Module, noisy_BChw: torch.Tensor, sigma_B: torch.Tensor, text: Text
    ) -> torch.Tensor:
        """The transformer's estimate of noise - latents, (B, C, h, w), at the noise levels sigma (float32, 0-1)."""

    @abstractmethod
    def _guide(self, guidance: float) -> dict[str, Any]:
        """Classifier-free guidance as the pipeline's arguments; none at 1 and below."""

    def make(
        self, prompts: list[str], noise_seeds: list[int], side: int, steps: int, guidance: float
    ) -> list[Image.Image]:
        """One picture of side x side pixels a prompt; a picture's noise depends on its seed alone."""
        generators = [torch.Generator().manual_seed(seed) for seed in noise_seeds]
        made = self.pipe(
            prompt=prompts,
            height=side,
            width=side,
            num_inference_steps=steps,
            generator=generators,
            max_sequence_length=self.max_text_tokens,
            **self._guide(guidance),
        )
        return made.images


class Sd3(Family):
    """Stable Diffusion 3: two CLIP encoders side by side, then T5, which a pipeline may lack."""

    pipeline_class = "StableDiffusion3Pipeline"
    text_encoders = ("text_encoder", "text_encoder_2", "text_encoder_3")
    optional_parts = ("text_encoder_3", "tokenizer_3")

    @property
    def latent_channels(self) -> int:
        """C, 16 in the published ones."""
        return self.pipe.vae.config.latent_channels

    @torch.no_grad()
    def encode_images(self, pixels_B3HW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Pixels of -1 to 1 -> mean and log-variance, float32 (B, C, h, w)."""
        posterior = self.pipe.vae.encode(pixels_B3HW).latent_dist
        return posterior.mean, posterior.logvar

    def normalise(self, latents_BChw: torch.Tensor) -> torch.Tensor:
        """(z - shift) x scale, both of the autoencoder's config."""
        config = self.pipe.vae.config
        return (latents_BChw - config.shift_factor) * config.scaling_factor

    @torch.no_grad()
    def encode_texts(self, texts: list[str]) -> list[Text]:
        """States of CLIP's and T5's tokens, (L, D), and CLIP's pooled state. T5 has no mask: its padding counts."""
        states, _, pooled, _ = self.pipe.encode_prompt(
            texts,
            None,
            None,
            device=self.device,
            do_classifier_free_guidance=False,
            max_sequence_length=self.max_text_tokens,
        )
        return [{"encoder_hidden_states": s, "pooled_projections": p} for s, p in zip(states, pooled, strict=True)]

    def collate(self, texts: list[Text]) -> Text:
        """All texts have the same length."""
        return {key: torch.stack([text[key] for text in texts]) for key in texts[0]}

    def text_tokens(self, texts: list[str]) -> dict[str, tuple[int, list[int]]]:
        """CLIP's limit is its own, T5's is `max_text_tokens`."""
        limit = self.pipe.tokenizer_max_length
        clip = {"CLIP-L": self.pipe.tokenizer, "CLIP-G": self.pipe.tokenizer_2}
        found = {name: (limit, _lengths(tokenizer, texts)) for name, tokenizer in clip.items()}
        if self.pipe.tokenizer_3 is not None:
            found["T5"] = (self.max_text_tokens, _lengths(self.pipe.tokenizer_3, texts))
        return found

    def num_text_tokens(self, tokens: dict[str, tuple[int, list[int]]]) -> list[int]:
        """CLIP's and T5's full lengths, whatever the text."""
        return [self.pipe.tokenizer_max_length + self.max_text_tokens] * len(tokens["CLIP-L"][1])

    def encoded_size(self, tokens: dict[str, tuple[int, list[int]]]) -> int:
        """The states of all tokens, and CLIP's pooled state."""
        config, lengths = self.pipe.transformer.config, self.num_text_tokens(tokens)
        return sum(lengths) * config.joint_attention_dim + len(lengths) * config.pooled_projection_dim

    def velocity(
        self, transformer: torch.nn.Module, noisy_BChw: torch.Tensor, sigma_B: torch.Tensor, text: Text
    ) -> torch.Tensor:
        """The time step is 0-1000."""
        return transformer(hidden_states=noisy_BChw, timestep=1000 * sigma_B, return_dict=False, **text)[0]

    def _guide(self, guidance: float) -> dict[str, Any]:
        return {"guidance_scale": guidance}


class QwenImage(Family):
    """Qwen-Image: one Qwen encoder that reads the text in a template, latents packed by 2x2."""

    pipeline_class = "QwenImagePipeline"
    text_encoders = ("text_encoder",)

    @property
    def latent_channels(self) -> int:
        """C, 16 in the published one."""
        return self.pipe.vae.config.z_dim

    @torch.no_grad()
    def encode_images(self, pixels_B3HW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Pixels of -1 to 1, as videos of one frame -> mean and log-variance, float32 (B, C, h, w)."""
        posterior = self.pipe.vae.encode(pixels_B3HW[:, :, None]).latent_dist
        return posterior.mean[:, :, 0], posterior.logvar[:, :, 0]

    def normalise(self, latents_BChw: torch.Tensor) -> torch.Tensor:
        """(z - mean) / std of each channel, both of the autoencoder's config."""
        config = self.pipe.vae.config
        mean, std = (
            torch.tensor(values).view(1, -1, 1, 1).to(latents_BChw)
            for values in (config.latents_mean, config.latents_std)
        )
        return (latents_BChw - mean) / std

    @torch.no_grad()
    def encode_texts(self, texts: list[str]) -> list[Text]:
        """States of the text's tokens and of the template's after them, (L, D)."""
        states_BLD, mask_BL = self.pipe.encode_prompt(texts, self.device, max_sequence_length=self.max_text_tokens)
        if mask_BL is None:  # the pipeline's way to say that all are real tokens
            return [{"encoder_hidden_states": states} for states in states_BLD]
        lengths = mask_BL.sum(1).tolist()
        return [{"encoder_hidden_states": s[:length]} for s, length in zip(states_BLD, lengths, strict=True)]

    def collate(self, texts: list[Text]) -> Text:
        """Padded to the longest, with a mask."""
        states = [text["encoder_hidden_states"] for text in texts]
        padded_BLD = torch.nn.utils.rnn.pad_sequence(states, batch_first=True)
        lengths_B1 = torch.tensor([[len(s)] for s in states])
        mask_BL = (torch.arange(padded_BLD.shape[1])[None] < lengths_B1).long()
        return {"encoder_hidden_states": padded_BLD, "encoder_hidden_states_mask": mask_BL.to(padded_BLD.device)}

    def text_tokens(self, texts: list[str]) -> dict[str, tuple[int, list[int]]]:
        """Counted as the pipeline cuts: without the template's tokens before the text, with those after it."""
        written = [self.pipe.prompt_template_encode.format(text) for text in texts]
        lengths = _lengths(self.pipe.tokenizer, written)
        return {"Qwen": (self.max_text_tokens, [n - self.pipe.prompt_template_encode_start_idx for n in lengths])}

    def num_text_tokens(self, tokens: dict[str, tuple[int, list[int]]]) -> list[int]:
        """Each text's own."""
        limit, lengths = tokens["Qwen"]
        return [min(length, limit) for length in lengths]

    def encoded_size(self, tokens: dict[str, tuple[int, list[int]]]) -> int:
        """The states of all tokens."""
        return sum(self.num_text_tokens(tokens)) * self.pipe.transformer.config.joint_attention_dim

    def velocity(
        self, transformer: torch.nn.Module, noisy_BChw: torch.Tensor, sigma_B: torch.Tensor, text: Text
    ) -> torch.Tensor:
        """The latents are packed by 2x2 for the transformer; the time step is 0-1."""
        batch, channels, height, width = noisy_BChw.shape
        packed = self.pipe._pack_latents(noisy_BChw[:, :, None], batch, channels, height, width)
        shapes = [[(1, height // 2, width // 2)]] * batch
        packed = transformer(hidden_states=packed, timestep=sigma_B, img_shapes=shapes, return_dict=False, **text)[0]
        scale = self.pipe.vae_scale_factor
        return self.pipe._unpack_latents(packed, height * scale, width * scale, scale)[:, :, 0]

    def _guide(self, guidance: float) -> dict[str, Any]:
        return {"true_cfg_scale": guidance, "negative_prompt": " " if guidance > 1 else None}


FAMILIES: dict[str, type[Family]] = {"sd3": Sd3, "qwen-image": QwenImage}


def _lengths(tokenizer: Any, texts: list[str]) -> list[int]:
    some = (texts[start : start + _COUNTED_AT_ONCE] for start in range(0, len(texts), _COUNTED_AT_ONCE))
    return [len(ids) for part in some for ids in tokenizer(part, truncation=False)["input_ids"]]


def _class_of(listed: list[str]) -> Any:
    """The class that a model_index.json lists as module and name."""
    return getattr(importlib.import_module(listed[0]), listed[1])


def _import_own_classes(index: dict[str, Any]) -> None:
    """Import the modules of this package that a model_index.json names: diffusers takes classes from a foreign module
    only where it is already imported."""
    package = __name__.split(".")[0]
    for part in index.values():
        if isinstance(part, list) and part[0] and part[0].startswith(f"{package}."):
            importlib.import_module(part[0])
