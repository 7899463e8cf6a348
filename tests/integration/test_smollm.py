"""The small real model is really the one that its makers trained: it knows a capital and stops."""

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def test_expanded_model_answers(smollm):
    model, loading = AutoModelForCausalLM.from_pretrained(smollm, output_loading_info=True)
    assert not loading["missing_keys"] and not loading["unexpected_keys"]
    tokenizer = AutoTokenizer.from_pretrained(smollm)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.inference_mode():
        tokens = model.generate(**prompt, max_new_tokens=24, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert tokenizer.decode(tokens) == "The capital of France is Paris.<|im_end|>"
