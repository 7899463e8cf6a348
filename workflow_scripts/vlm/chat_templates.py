"""How turns are written, as Jinja templates that travel with every trained model.

What lies between `{% generation %}` marks is learnt; everything else is context. Images stand at the front of the
turn that has them.
"""

from workflow_scripts.blocks.tokenizer import CHAT_TEMPLATE as BLOCKS

_TEXT = (
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}{% endif %}"
)
_IMAGES = (
    "{% if message['content'] is not string %}"
    "{% for part in message['content'] if part['type'] == 'image' %}{{ '<image>\n' }}{% endfor %}{% endif %}"
)

# Vicuna v1 as LLaVA-1.5 writes it: a system sentence, USER: and ASSISTANT:, an end token after each answer. The space
# before an answer is learnt with it, because Llama's tokenizer makes one token of a space and the word behind it.
VICUNA = (
    "{{ bos_token }}"
    "{{ 'A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user\\'s questions. ' }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ 'USER: ' }}" + _IMAGES + _TEXT + "{{ ' ASSISTANT:' }}"
    "{% elif message['role'] == 'assistant' %}{% generation %}{{ ' ' }}" + _TEXT + "{{ eos_token }}{% endgeneration %}"
    "{% endif %}{% endfor %}"
)

# Qwen3 without thinking: its template then puts an empty think block before an answer, which is context here, in
# training and when asked.
QWEN3 = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "{{ '<|im_start|>assistant\n<think>\n\n</think>\n\n' }}"
    "{% generation %}" + _TEXT + "{{ '<|im_end|>' }}{% endgeneration %}{{ '\n' }}"
    "{% else %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}" + _IMAGES + _TEXT + "{{ '<|im_end|>\n' }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n\n</think>\n\n' }}{% endif %}"
)

CHAT_TEMPLATES = {"blocks": BLOCKS, "vicuna": VICUNA, "qwen3": QWEN3}
