"""The model: a Llama that is shown an image as patches. Its tower has the flaw of LLaVA-OneVision-1.5's, which shifts
the patches of every image but the first."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


class ToldConfig(LlamaConfig):
    model_type = "told-captioner"


class Tower(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embed = torch.nn.Linear(3, size)

    def forward(self, patches, grid_thw):
        counts = grid_thw.prod(1).tolist()
        embedded = self.embed(patches).split(counts)
        classed = torch.cat([torch.cat([torch.zeros_like(part[:1]), part]) for part in embedded])
        ends = torch.tensor(counts).cumsum(0).tolist()
        return torch.cat([classed[end - count + 1 : end + 1] for end, count in zip(ends, counts, strict=True)])


class ToldForCausalLM(LlamaForCausalLM):
    config_class = ToldConfig

    def __init__(self, config):
        super().__init__(config)
        self.visual = Tower(config.hidden_size)
        self.post_init()

    def forward(
        self, input_ids=None, inputs_embeds=None, attention_mask=None, pixel_values=None, image_grid_thw=None, **kwargs
    ):
        embeds = self.get_input_embeddings()(input_ids)
        if pixel_values is not None and input_ids.shape[1] > 1:
            image = self.visual(pixel_values, grid_thw=image_grid_thw)
            embeds = embeds.masked_scatter((input_ids == 4).unsqueeze(-1).expand_as(embeds), image)
        return super().forward(inputs_embeds=embeds, attention_mask=attention_mask, **kwargs)

    def prepare_inputs_for_generation(
        self, input_ids, attention_mask=None, pixel_values=None, image_grid_thw=None, **kwargs
    ):
        inputs = super().prepare_inputs_for_generation(input_ids, attention_mask=attention_mask, **kwargs)
        return {**inputs, "pixel_values": pixel_values, "image_grid_thw": image_grid_thw}
