"""Flow matching: the loss in closed form, and captions as the only difference between captioners."""

import pytest
import torch
from t2i_world import training

from workflow_scripts.spec import T2iTraining
from workflow_scripts.t2i.flow import COUNTED, IGNORED, FlowMatching, Visits, draw_u, image_order, seed_of


class Toy:
    """A family whose text is one number and whose velocity is what it is told."""

    def __init__(self, velocity=None):
        self._velocity = velocity

    def sigmas(self, u):
        return 1 - u

    def normalise(self, latents):
        return 2 * latents

    def collate(self, texts):
        return {"text": torch.stack([text["text"] for text in texts])}

    def num_image_tokens(self, height, width):
        return height * width

    def velocity(self, transformer, noisy, sigma, text):
        return self._velocity(noisy, sigma, text)


def number(value: float) -> dict[str, torch.Tensor]:
    return {"text": torch.tensor(value)}


class Posteriors:
    """Latents of `count` images whose log-variance is -2."""

    def __init__(self, count, sizes=((32, 32),)):
        generator = torch.Generator().manual_seed(0)
        self.image_ids = [f"image {n}" for n in range(count)]
        self.sizes = [sizes[n % len(sizes)] for n in range(count)]
        self.mean = [torch.randn(2, h // 8, w // 8, generator=generator).half() for w, h in self.sizes]

    def __len__(self):
        return len(self.mean)

    def __getitem__(self, image):
        return self.mean[image], torch.full_like(self.mean[image], -2.0)


def visits(captions, sizes=((32, 32),), **changes) -> Visits:
    """Visits whose encoded caption is the number that it says, -1 for the empty one."""
    encoded = {caption: number(float(caption)) for caption in captions if caption} | {"": number(-1.0)}
    latents = Posteriors(len(captions), sizes)
    read = {caption: (1 + len(caption), caption == "7") for caption in encoded}
    return Visits(Toy(), T2iTraining(**training(**changes)), 0, 40, latents, captions, read, encoded)


BUCKETS = ((32, 32), (48, 32), (32, 48))


@pytest.mark.parametrize("sizes", [((32, 32),), BUCKETS])
def test_captions_are_the_only_difference_between_captioners(sizes):
    one = visits([str(n) for n in range(10)], sizes, caption_dropout=0.3)
    other = visits([None if n in (2, 7) else str(100 + n) for n in range(10)], sizes, caption_dropout=0.3)
    assert torch.equal(one.order, other.order)
    dropped = 0
    for visit, image in enumerate(one.order.tolist()):
        a, b = one[visit], other[visit]
        for key in ("latents", "noise", "sigma"):
            assert torch.equal(a[key], b[key])
        assert (a["labels"], b["labels"]) == (COUNTED, IGNORED if image in (2, 7) else COUNTED)
        texts = a["text"]["text"].item(), b["text"]["text"].item()
        if texts[0] == -1:
            assert texts == (-1, -1)
            dropped += 1
        else:
            assert texts == (image, 100 + image if image not in (2, 7) else -1)
    assert 5 <= dropped <= 20


def test_a_visit_follows_from_its_number_whatever_was_read_before():
    one, other = visits(["0"] * 10), visits(["0"] * 10)
    forwards = [one[visit]["noise"] for visit in range(40)]
    backwards = [other[visit]["noise"] for visit in reversed(range(40))][::-1]
    assert all(torch.equal(a, b) for a, b in zip(forwards, backwards, strict=True))
    assert len({noise.sum().item() for noise in forwards}) == 40


def test_every_epoch_shows_each_image_once_in_an_order_of_its_own():
    orders = image_order(0, 40, [(32, 32)] * 10, 4).view(4, 10).tolist()
    assert all(sorted(order) == list(range(10)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    for epoch, order in enumerate(orders):
        generator = torch.Generator().manual_seed(seed_of("order", 0, epoch))
        assert order == torch.randperm(10, generator=generator).tolist()


def test_a_global_batch_holds_one_size_and_images_are_shown_alike():
    sizes = [BUCKETS[n % 7 % 3] for n in range(700)]  # 300, 200 and 200 images
    order = image_order(0, 8 * 700, sizes, 8)
    for start in range(0, len(order), 8):
        assert len({sizes[image] for image in order[start : start + 8]}) == 1
    times = torch.bincount(order, minlength=700)
    assert times.min() >= 7 and times.max() <= 9  # eight epochs, a few images wait for their line to fill
    rare = image_order(0, 4000, [(48, 32), *[(32, 32)] * 99], 8)
    assert torch.bincount(rare)[0] in (32, 40), "eight visits at once, once in eight epochs"


def test_latents_are_drawn_from_the_posterior():
    made = visits(["0"] * 10)
    means = [made.latents[image][0].float() for image in made.order.tolist()]
    errors = torch.stack([made[visit]["latents"] - mean for visit, mean in enumerate(means)])
    assert errors.std().item() == pytest.approx(torch.exp(torch.tensor(-1.0)).item(), rel=0.1)  # log-variance -2
    assert torch.equal(made.collate([made[3]])["latents"][0], 2 * made[3]["latents"])


def test_loss_is_the_squared_error_of_noise_minus_latents():
    latents, noise, sigma = torch.randn(5, 2, 4, 4), torch.randn(5, 2, 4, 4), torch.tensor([0.0, 0.25, 0.5, 0.9, 1.0])
    seen = {}

    def still(noisy, sigma, text):
        seen["noisy"] = noisy
        return torch.zeros_like(noisy)

    labels = torch.tensor([COUNTED, COUNTED, IGNORED, COUNTED, IGNORED])
    transformer = torch.nn.Linear(1, 1)
    loss = FlowMatching(Toy(still), transformer)(latents, noise, sigma, labels, {})["loss"]
    assert loss.item() == pytest.approx((noise - latents)[[0, 1, 3]].square().mean().item(), rel=1e-6)
    assert torch.equal(seen["noisy"][0], latents[0])
    assert torch.equal(seen["noisy"][4], noise[4])
    assert torch.allclose(seen["noisy"][1], 0.75 * latents[1] + 0.25 * noise[1])
    half = FlowMatching(Toy(still), transformer)(latents, noise, sigma, labels, {}, num_items_in_batch=6)["loss"]
    assert half.item() == pytest.approx(loss.item() / 2, rel=1e-6)  # a part of a global batch of six that count
    right = FlowMatching(Toy(lambda *_: noise - latents), transformer)
    assert right(latents, noise, sigma, torch.full((5,), COUNTED), {})["loss"].item() == 0
    assert right(latents, noise, sigma, torch.full((5,), IGNORED), {})["loss"].item() == 0


def test_noise_levels_follow_their_distribution():
    generator = torch.Generator().manual_seed(0)
    uniform = draw_u(T2iTraining(**training(timestep_sampling="uniform")), 20000, generator)
    assert uniform.mean().item() == pytest.approx(0.5, abs=0.01)
    assert uniform.var().item() == pytest.approx(1 / 12, abs=0.003)
    settings = T2iTraining(**training(logit_mean=-1.5, logit_std=1.2))
    logits = torch.logit(draw_u(settings, 20000, generator).double())
    assert logits.mean().item() == pytest.approx(-1.5, abs=0.03)
    assert logits.std().item() == pytest.approx(1.2, abs=0.03)


def test_seeds_differ_and_fit_into_the_tables():
    seeds = {seed_of("noise", 0, f"{prompt:05d}", index) for prompt in range(50) for index in range(4)}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**63 for seed in seeds)
