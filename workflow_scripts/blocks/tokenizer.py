"""The tokenizer of the blocks world: one token a word, VOCABULARY's order, saved with every checkpoint."""

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from workflow_scripts.blocks.world import VOCABULARY

# <bos> <image> question answer <eos> question answer <eos>: roles need no tokens of their own, because every answer
# ends with <eos> and a model never has to go on with a question. The image stands first in its turn.
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}"
    "{% if message['content'] is string %}{{ ' ' + message['content'] }}"
    "{% else %}"
    "{% for part in message['content'] if part['type'] == 'image' %}{{ ' <image>' }}{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ ' ' + part['text'] }}{% endfor %}"
    "{% endif %}"
    "{% else %}"
    "{{ ' ' }}{% generation %}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{{ part['text'] }}{% endfor %}{% endif %}"
    "{{ ' ' + eos_token }}{% endgeneration %}"
    "{% endif %}"
    "{% endfor %}"
)


def build_tokenizer(model_max_length: int = 128) -> PreTrainedTokenizerFast:
    """The tokenizer, with its chat template; words outside VOCABULARY become <unk>. Ids are positions in
    VOCABULARY: <pad> 0, <bos> 1, <eos> 2, <unk> 3, <image> 4. <bos> comes from the chat template, not from
    encoding; an answer is `text + " " + eos_token`."""
    vocabulary = {word: index for index, word in enumerate(VOCABULARY)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",  # noqa: S106
        bos_token="<bos>",  # noqa: S106
        eos_token="<eos>",  # noqa: S106
        unk_token="<unk>",  # noqa: S106
        extra_special_tokens={"image_token": "<image>"},
        chat_template=CHAT_TEMPLATE,
        model_max_length=model_max_length,
        padding_side="right",
        clean_up_tokenization_spaces=False,
    )
