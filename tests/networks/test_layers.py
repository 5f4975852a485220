"""Initialization as in Keras, and image shapes."""

import math

import pytest
import torch
from torch import nn

from dgdmn.networks.layers import (
    Dropout,
    ToFeatures,
    ToImage,
    ToRows,
    dense,
    image_shape,
    make_layer,
    meta_weights,
    to_device,
)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("layer", "fan_in", "fan_out"),
    [
        (dense(300, 200, rng()), 300, 200),
        (make_layer(nn.Conv2d, rng(), 12, 20, 3), 12 * 9, 20 * 9),
        (make_layer(nn.Conv2d, rng(), 8, 16, 4, 2, 1), 8 * 16, 16 * 16),
        (make_layer(nn.ConvTranspose2d, rng(), 16, 8, 4, 2, 1), 16 * 16, 8 * 16),
    ],
)
def test_glorot_uniform_weights_and_zero_biases(layer, fan_in, fan_out):
    bound = math.sqrt(6 / (fan_in + fan_out))
    weight = layer.weight.detach()
    assert float(weight.abs().max()) <= bound
    assert float(weight.abs().max()) > 0.98 * bound
    assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert float(layer.bias.detach().abs().max()) == 0


def test_weights_come_from_the_generator_passed():
    before = torch.get_rng_state()
    assert torch.equal(dense(4, 3, rng(1)).weight, dense(4, 3, rng(1)).weight)
    assert not torch.equal(dense(4, 3, rng(1)).weight, dense(4, 3, rng(2)).weight)
    assert torch.equal(before, torch.get_rng_state())


def test_rows_become_images_and_rows_again():
    x = torch.arange(2 * 24.0).reshape(2, 24)
    images = ToImage(4, 3, 2)(x)
    assert images.shape == (2, 2, 4, 3)
    assert images[0, 1, 2, 0] == x[0].reshape(4, 3, 2)[2, 0, 1]
    assert torch.equal(ToRows(4, 3)(torch.nn.functional.pad(images, (0, 2, 0, 1))), x)


def test_image_shapes():
    assert image_shape((28, 28)) == (28, 28, 1)
    assert image_shape((4, 5, 3)) == (4, 5, 3)
    assert image_shape((784,)) == (28, 28, 1)
    with pytest.raises(ValueError, match="12 features are not a square image"):
        image_shape((12,))


def test_features_become_images():
    x = torch.arange(2 * 24.0).reshape(2, 24)
    images = ToFeatures(2, 4, 3)(x)
    assert torch.equal(images.flatten(1), x)
    assert images.is_contiguous(memory_format=torch.channels_last)


def test_dropout_uses_the_generator_passed_and_keeps_the_mean():
    x, drop = torch.ones(100, 100), Dropout(0.2)
    assert drop(x) is x, "nothing is dropped without a generator"
    dropped = drop(x, rng(1))
    assert torch.equal(dropped, drop(x, rng(1)))
    assert set(dropped.unique().tolist()) == {0.0, 1.25}
    assert float(dropped.mean()) == pytest.approx(1, abs=0.02)


def test_layers_without_weights_take_no_memory_and_stay_where_they_are():
    with meta_weights():
        layer = to_device(dense(10**6, 10**6, rng()), "cpu")
    assert layer.weight.device.type == "meta"
    assert dense(2, 3, rng()).weight.device.type == "cpu", "only inside the block"
