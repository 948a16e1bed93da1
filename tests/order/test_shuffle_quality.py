"""A shuffled epoch can't be told from `Generator.permutation` by the statistics that training would feel.

Each statistic is a chi-square turned into a z-score, (chi2 - df) / sqrt(2 df), over many orders: seeds times
epochs. The same is computed for numpy's shuffle, and for bad shuffles that the statistics must catch.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from loaderkit.samplers import IndexSampler

Orders = npt.NDArray[np.int64]  # (orders, n): the epochs of a seed follow each other

BUCKETS = 16
SEEDS, EPOCHS = 24, 16
LIMIT = 5.0


def ours(n: int) -> Orders:
    wanted = np.arange(EPOCHS * n)
    epochs = [IndexSampler(n, shuffle=True, seed=seed).record_keys(wanted) for seed in range(SEEDS)]
    return np.reshape(epochs, (SEEDS * EPOCHS, n))


def numpys(n: int) -> Orders:
    rng = np.random.Generator(np.random.Philox(key=0))
    return np.array([rng.permutation(n) for _ in range(SEEDS * EPOCHS)])


def rotated(n: int) -> Orders:
    """One good order, begun elsewhere each epoch."""
    order = np.random.Generator(np.random.Philox(key=0)).permutation(n)
    return np.array([np.roll(order, 7 * number) for number in range(SEEDS * EPOCHS)])


def multiplied(n: int) -> Orders:
    """Multiplying by a number prime to n."""
    steps = [step for step in range(1, 20 * SEEDS * EPOCHS) if np.gcd(step, n) == 1][: SEEDS * EPOCHS]
    return np.arange(n) * np.array(steps)[:, np.newaxis] % n


def windowed(n: int) -> Orders:
    """Shuffled in a window of an eighth, as a shuffle buffer does."""
    rng = np.random.Generator(np.random.Philox(key=0))
    window = n // 8
    pieces = [np.arange(low, min(low + window, n)) for low in range(0, n, window)]
    return np.array(
        [np.concatenate([rng.permutation(piece) for piece in pieces]) for _ in range(SEEDS * EPOCHS)]
    )


def seeds_added(n: int) -> Orders:
    """A good order chosen by seed + epoch."""
    chosen = np.add.outer(np.arange(SEEDS), np.arange(EPOCHS)).ravel()
    return np.array([np.random.Generator(np.random.Philox(key=int(key))).permutation(n) for key in chosen])


def z_score(counts: npt.NDArray[np.int64], expected: npt.NDArray[np.float64], freedom: int) -> float:
    chi = float(((counts - expected) ** 2 / expected).sum())
    return (chi - freedom) / (2 * freedom) ** 0.5


def joint(left: Orders, right: Orders, n: int, *, distinct: bool) -> float:
    """Whether two numbers are independent, by a table of 16 x 16; they may or can't be equal."""
    table = np.bincount(
        ((left * BUCKETS // n) * BUCKETS + right * BUCKETS // n).ravel(), minlength=BUCKETS**2
    )
    sizes = np.bincount(np.arange(n) * BUCKETS // n)
    pairs = np.outer(sizes, sizes) - (np.diag(sizes) if distinct else 0)
    return z_score(table, (pairs / pairs.sum()).ravel() * left.size, BUCKETS**2 - 1)


def place(orders: Orders) -> float:
    """Which number comes at which position."""
    n = orders.shape[1]
    return joint(np.broadcast_to(np.arange(n), orders.shape), orders, n, distinct=False)


def successor(orders: Orders) -> float:
    """How far it is from a number to the next."""
    n = orders.shape[1]
    steps = (orders[:, 1:] - orders[:, :-1]) % n - 1
    sizes = np.bincount(np.arange(n - 1) * BUCKETS // (n - 1))
    counts = np.bincount((steps * BUCKETS // (n - 1)).ravel())
    return z_score(counts, sizes / (n - 1) * steps.size, BUCKETS - 1)


def neighbours(orders: Orders) -> float:
    """Which numbers come in the same batch: next to each other."""
    return joint(orders[:, :-1], orders[:, 1:], orders.shape[1], distinct=True)


def far_pairs(orders: Orders) -> float:
    """Which numbers come half an epoch apart."""
    n = orders.shape[1]
    return joint(orders[:, : n // 2], orders[:, n // 2 : n // 2 * 2], n, distinct=True)


def next_epoch(orders: Orders) -> float:
    """What a position gives in one epoch and in the next."""
    of_seeds = orders.reshape(SEEDS, EPOCHS, -1)
    return joint(of_seeds[:, :-1], of_seeds[:, 1:], orders.shape[1], distinct=False)


def next_seed(orders: Orders) -> float:
    """What a position gives for one seed and for the next, one epoch earlier: where added seeds show."""
    of_seeds = orders.reshape(SEEDS, EPOCHS, -1)
    return joint(of_seeds[:-1, 1:], of_seeds[1:, :-1], orders.shape[1], distinct=False)


def fixed_points(orders: Orders) -> float:
    """How many numbers stay where they are: one on average, and its variance one."""
    count = (orders == np.arange(orders.shape[1])).sum(axis=1)
    return float((count.mean() - 1) * len(orders) ** 0.5)


def runs(orders: Orders) -> float:
    """How often the order descends: (n - 1) / 2 times, with variance (n + 1) / 12."""
    n = orders.shape[1]
    descents = (orders[:, 1:] < orders[:, :-1]).sum(axis=1)
    return float((descents.mean() - (n - 1) / 2) / ((n + 1) / 12 / len(orders)) ** 0.5)


STATISTICS: list[Callable[[Orders], float]] = [
    place,
    successor,
    neighbours,
    far_pairs,
    next_epoch,
    next_seed,
    fixed_points,
    runs,
]


@pytest.mark.parametrize("n", [200, 257, 1025, 4096])
@pytest.mark.parametrize("shuffle", [ours, numpys])
def test_no_statistic_tells_it_from_chance(shuffle, n):
    """Ranked and enciphered orders alike stay where numpy's stay: within 5 standard deviations."""
    orders = shuffle(n)
    scores = {statistic.__name__: statistic(orders) for statistic in STATISTICS}
    assert {name: score for name, score in scores.items() if abs(score) > LIMIT} == {}


@pytest.mark.parametrize(
    ("shuffle", "statistic"),
    [
        (rotated, successor),
        (rotated, neighbours),
        (rotated, next_epoch),
        (multiplied, neighbours),
        (windowed, place),
        (windowed, far_pairs),
        (windowed, fixed_points),
        (seeds_added, next_seed),
    ],
)
def test_the_statistics_catch_bad_shuffles(shuffle, statistic):
    """Each known weakness is far beyond what is allowed above."""
    assert abs(statistic(shuffle(1025))) > 4 * LIMIT


@pytest.mark.parametrize("n", [200, 1025])
def test_no_two_seeds_and_epochs_share_an_order(n):
    """Seed 1 in epoch 0 isn't seed 0 in epoch 1: all of 40 x 40 orders differ."""
    wanted = np.arange(40 * n)
    orders = [
        order.tobytes()
        for seed in range(40)
        for order in IndexSampler(n, shuffle=True, seed=seed).record_keys(wanted).reshape(40, n)
    ]
    assert len(set(orders)) == 1600
