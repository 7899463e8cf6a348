"""Encoded captions on disk: what is read back, how much it is, what a killed run leaves, that encoders go."""

import gc
import pickle
import weakref

import pytest
import torch
from t2i_world import MAX_TEXT_TOKENS, save_base, scenes

from workflow_scripts.blocks.world import describe, say
from workflow_scripts.spec import Source
from workflow_scripts.t2i import embeddings
from workflow_scripts.t2i.families import FAMILIES

TEXTS = ["", *dict.fromkeys(say(describe(scene)) for scene in scenes()[:9])]


@pytest.fixture(scope="module", params=list(FAMILIES))
def base(request, tmp_path_factory):
    return request.param, save_base(request.param, tmp_path_factory.mktemp("base"))


def opened(base, dtype=torch.float32):
    family = FAMILIES[base[0]].open(Source(path=base[1]), MAX_TEXT_TOKENS[base[0]])
    family.load_text_encoders(dtype)
    return family


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_texts_are_read_back_as_they_were_encoded_and_as_large_as_foretold(base, tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(embeddings, "SHARD_SIZE", 4)
    family = opened(base, dtype)
    encoded = embeddings.encode_once(family, TEXTS, tmp_path)
    for reader in (encoded, pickle.loads(pickle.dumps(encoded))):
        for text in TEXTS:
            (alone,) = family.encode_texts([text])
            read = reader[text]
            assert read.keys() == alone.keys()
            for key, value in alone.items():
                assert read[key].dtype == dtype
                tolerance = {} if dtype == torch.float32 else {"rtol": 0.05, "atol": 0.05}
                torch.testing.assert_close(read[key], value, **tolerance)
    numbers = sum(value.numel() for text in TEXTS for value in encoded[text].values())
    assert family.encoded_size(family.text_tokens(TEXTS)) == numbers
    assert len(list(tmp_path.iterdir())) == -(-len(TEXTS) // 4)


def test_a_caption_takes_as_much_as_its_encoders_keep_of_it(base):
    """4.6 MiB a caption for SD3's published widths in 16 bits, for Qwen-Image by its tokens up to the limit."""
    family = FAMILIES[base[0]].open(Source(path=base[1]), 512)
    if base[0] == "sd3":
        family.pipe.tokenizer_max_length = 77
        family.pipe.transformer.register_to_config(joint_attention_dim=4096, pooled_projection_dim=2048)
        assert 2 * family.encoded_size({"CLIP-L": (77, [9])}) / 2**20 == pytest.approx(4.6, abs=0.05)
    else:
        family.pipe.transformer.register_to_config(joint_attention_dim=3584)
        assert 2 * family.encoded_size({"Qwen": (512, [100, 900])}) == 2 * 3584 * (100 + 512)


def test_each_process_encodes_its_share_of_what_an_earlier_run_left_over(base, tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "SHARD_SIZE", 2)
    family, made = opened(base), []
    encode = family.encode_texts
    monkeypatch.setattr(family, "encode_texts", lambda texts: made.append(texts) or encode(texts))
    whole = embeddings.encode_once(family, TEXTS, tmp_path)
    shards = sorted(tmp_path.iterdir())
    assert made == [TEXTS[start : start + 2] for start in range(0, len(TEXTS), 2)]
    before = {path: path.read_bytes() for path in shards}
    shards[0].write_bytes(before[shards[0]][:50])
    for shard in shards[2:4]:
        shard.unlink()
    (tmp_path / ".00002.77.tmp.safetensors").write_bytes(b"half")
    made.clear()
    monkeypatch.setattr(embeddings, "world_size", lambda: 2)
    for process, expected in enumerate([[TEXTS[0:2], TEXTS[4:6]], [TEXTS[6:8]]]):
        monkeypatch.setattr(embeddings, "rank", lambda process=process: process)
        embeddings.encode_once(family, TEXTS, tmp_path)
        assert made == expected
        made.clear()
    assert {path: path.read_bytes() for path in sorted(tmp_path.iterdir())} == before
    assert torch.equal(
        whole[TEXTS[7]]["encoder_hidden_states"], family.encode_texts([TEXTS[7]])[0]["encoder_hidden_states"]
    )


def test_freed_encoders_are_gone_and_the_rest_works_without_them(base):
    family = opened(base)
    texts = family.encode_texts(TEXTS[1:3])
    watched = [weakref.ref(getattr(family.pipe, name)) for name in ("text_encoder",)]
    assert all(parameter.is_meta for parameter in family.pipe.transformer.parameters())
    family.free_text_encoders()
    gc.collect()
    assert [reference() for reference in watched] == [None]
    rounded = family.load_part("transformer", torch.bfloat16)
    transformer = family.load_part("transformer")
    for name, parameter in rounded.named_parameters():
        assert torch.equal(parameter, transformer.get_parameter(name).bfloat16())
    for name, buffer in rounded.named_buffers():
        assert torch.equal(buffer, transformer.get_buffer(name))
    assert family.pipe.transformer is transformer
    with torch.no_grad():
        noisy = family.normalise(torch.randn(2, 8, 4, 4))
        velocity = family.velocity(transformer, noisy, torch.tensor([0.5, 1.0]), family.collate(texts))
    assert velocity.shape == noisy.shape and velocity.isfinite().all()
