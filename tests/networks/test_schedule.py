"""The step size over a training, and momentum: against formulas by hand and torch's own Adam."""

import math

import pytest
import torch
from torch import nn

from dgdmn.networks.rmsprop import RMSProp
from dgdmn.networks.training import Schedule


def test_a_constant_rate_is_constant():
    schedule = Schedule(epochs=3, batch_size=10, learning_rate=0.5)
    assert {schedule.rate(25, epoch, step) for epoch in range(3) for step in range(3)} == {0.5}


def test_a_cycle_rises_in_the_first_tenth_and_falls_to_almost_nothing():
    schedule = Schedule(epochs=10, batch_size=10, learning_rate=0.5, cycle=True)
    rates = [schedule.rate(100, epoch, step) for epoch in range(10) for step in range(10)]
    assert rates[0] == pytest.approx(0.5 / 10)
    assert max(rates) == rates[9] == pytest.approx(0.5)
    assert rates[-1] == pytest.approx(0.5 * 0.001)
    halfway = (1 + math.cos(math.pi * (0.55 - 0.1) / 0.9)) / 2
    assert rates[54] == pytest.approx(0.5 * (0.001 + 0.999 * halfway))
    assert rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_a_cycle_is_stretched_over_the_epochs_that_little_data_needs():
    schedule = Schedule(epochs=1, batch_size=10, learning_rate=1.0, min_steps=40, cycle=True)
    assert schedule.epochs_for(20) == 20
    assert schedule.rate(20, 19, 1) == pytest.approx(0.001)


def test_with_momentum_it_is_adam_long_after_its_start():
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    mine = RMSProp(
        ours.parameters(), learning_rate=0.01, rho=0.9, epsilon=1e-8, clip_norm=0, clip_value=0, momentum=0.8
    )
    adam = torch.optim.Adam(theirs.parameters(), lr=0.01, betas=(0.8, 0.9), eps=1e-8)
    for parameter in theirs.parameters():  # so many steps that the corrections for a cold start are 1
        nothing = torch.zeros_like(parameter)
        adam.state[parameter] = {"step": torch.tensor(1e6), "exp_avg": nothing, "exp_avg_sq": nothing.clone()}
    for _ in range(5):
        x = torch.randn(7, 3)
        mine.step(torch.autograd.grad(ours(x).square().sum(), mine.parameters))
        adam.zero_grad()
        theirs(x).square().sum().backward()
        adam.step()
    assert torch.allclose(ours.weight, theirs.weight, atol=1e-6)


def test_without_momentum_nothing_more_is_kept():
    network = nn.Linear(3, 2)
    options = {"learning_rate": 0.01, "rho": 0.9, "epsilon": 1e-8, "clip_norm": 0, "clip_value": 0}
    assert RMSProp(network.parameters(), **options).averages == []
