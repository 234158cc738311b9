"""What do losses that know the costs buy a small network? Costs of decisions beside the log-loss.

A network of one hidden layer on four public sets, several random divisions, costs 1:1, 5:1, 20:1.
All start from the same weights, and are stopped where their own loss on held-out rows is least:
the log-loss with Bayes' threshold, the truncated likelihood (zone 1 and 4, for the costs), the
ramp (from the truncated network) and the expected cost (from the network of the log-loss). §5 of Le
Roux (2017) asks whether more than one bound would improve a network with dropout: half of the
hidden units are left out at random, in the log-loss and in the expected cost that goes on from it.
Costs on test rows are in units of the better constant decision's.

    python -m benchmarks.networks
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from benchmarks.do_no_harm import COSTS, divide, spread
from benchmarks.papers.tight_bound_tables import Cells
from benchmarks.report import RESULTS, measure, print_table, verdict
from grayzone.decision import threshold_from_costs
from grayzone.nn import RampLoss, TightBoundLoss, TruncatedLoss

SETS = ("a9a", "spambase", "ijcnn1", "german_credit_numeric")
RATIOS = ("1:1", "5:1", "20:1")
SPLITS, QUICK_SPLITS = 10, 2
WIDTH, STEPS, RATE, DECAY, HELD_OUT = 32, 300, 1e-2, 1e-3, 0.25
DROPPED = 0.5  # of the hidden units
PLAIN = "log-loss"
OTHERS = (
    "truncated, zone 1",
    "truncated, zone 4",
    "ramp, zone 1",
    "expected cost",
    "log-loss, dropout",
    "expected cost, dropout",
)

Record = dict[str, Any]
Tensors = tuple[torch.Tensor, torch.Tensor]


def network(n_features: int, seed: int, dropped: float = 0.0) -> torch.nn.Module:
    """Make the network that all losses start from, of which some units are left out in training."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(n_features, WIDTH),
        torch.nn.Tanh(),
        torch.nn.Dropout(dropped),
        torch.nn.Linear(WIDTH, 1),
    )


def trained(start: torch.nn.Module, loss: Any, inside: Tensors, outside: Tensors) -> Any:
    """Train a copy by all rows at once, and return it as it was where held-out rows lost least."""
    model = copy.deepcopy(start)
    steps = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    best, kept = np.inf, copy.deepcopy(model.state_dict())
    for _ in range(STEPS):
        model.eval()
        with torch.no_grad():
            held_out = float(loss(model(outside[0]), outside[1]))
        model.train()
        if held_out < best:
            best, kept = held_out, copy.deepcopy(model.state_dict())
        steps.zero_grad()
        loss(model(inside[0]), inside[1]).backward()
        steps.step()
    model.load_state_dict(kept)
    return model.eval()


def one_division(name: str, seed: int) -> Record:
    """Train with all losses; return what decisions cost, by costs and loss."""
    split = divide(name, seed)
    rows = [split.X_train, split.y_train]
    X_in, X_out, y_in, y_out = train_test_split(
        *rows, test_size=HELD_OUT, stratify=split.y_train, random_state=seed
    )
    inside, outside = (
        (torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y))
        for X, y in ((X_in, y_in), (X_out, y_out))
    )
    start, dropping = (network(split.X_train.shape[1], seed, share) for share in (0.0, DROPPED))
    plain = trained(start, TruncatedLoss(None), inside, outside)
    dropped = trained(dropping, TruncatedLoss(None), inside, outside)
    found: Record = {}
    for ratio in RATIOS:
        costs = COSTS[ratio]
        narrow = trained(start, TruncatedLoss(1.0, costs), inside, outside)
        models = {
            PLAIN: plain,
            "truncated, zone 1": narrow,
            "truncated, zone 4": trained(start, TruncatedLoss(4.0, costs), inside, outside),
            "ramp, zone 1": trained(narrow, RampLoss(1.0, costs), inside, outside),
            "expected cost": trained(plain, TightBoundLoss(costs), inside, outside),
            "log-loss, dropout": dropped,
            "expected cost, dropout": trained(dropped, TightBoundLoss(costs), inside, outside),
        }
        found[ratio] = {
            who: relative_cost(model, costs, split, 0.5 if "expected" in who else None)
            for who, model in models.items()
        }
    return found


def relative_cost(model: Any, costs: Any, split: Any, cut: float | None) -> float:
    """Return what decisions cost on test rows, in what the better constant decision costs.

    The network of expected costs is a policy, whose likelier action is taken.
    """
    with torch.no_grad():
        p = torch.sigmoid(model(torch.as_tensor(split.X_test, dtype=torch.float32)))[:, 0].numpy()
    alarms = p >= (threshold_from_costs(costs) if cut is None else cut)
    y = split.y_test == 1
    paid = np.where(y, costs[1] * ~alarms, costs[0] * alarms).mean()
    return float(paid / min(costs[1] * y.mean(), costs[0] * (~y).mean()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.networks", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--splits", type=int, help=f"random divisions (default: {SPLITS})")
    add("--quick", action="store_true", help=f"{QUICK_SPLITS} divisions: does everything run?")
    add("--threads", type=int, default=1, help="threads (default: 1)")
    add("--output", type=Path, help="the JSON file, continued if it exists")
    options = parser.parse_args(argv)
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    torch.set_num_threads(options.threads)
    cells = Cells("networks", options.output or RESULTS / "networks.json")
    runs = {
        name: [
            cells.get(f"{name}, division {seed}, with dropout", partial(one_division, name, seed))
            for seed in range(splits)
        ]
        for name in SETS
    }
    show(runs)
    cells.write({"splits": splits}, announce=True)
    return 0


def show(runs: dict[str, list[Record]]) -> None:
    """Print what each set and loss costs, and say what the losses buy."""
    rows = []
    for name, divisions in runs.items():
        for ratio in RATIOS:
            plain = [one[ratio][PLAIN] for one in divisions]
            cells = [f"{np.mean(plain):.3f}"]
            for who in OTHERS:
                mean, error = spread([one[ratio][who] - one[ratio][PLAIN] for one in divisions])
                cells.append(f"{mean:+.3f} ± {error:.3f}")
            rows.append([f"{name}, {ratio}", *cells])
    print_table(
        "A network of 32 hidden units: cost with the log-loss and Bayes' threshold in units of the "
        "better constant decision's, and what other losses change (± standard error of divisions)",
        ("", PLAIN, *OTHERS),
        rows,
    )
    for who in OTHERS:
        by_set = [
            float(np.mean([one[r][who] - one[r][PLAIN] for one in divisions for r in RATIOS]))
            for divisions in runs.values()
        ]
        mean, error = spread(by_set)
        verdict(
            f"{who}: cheaper decisions of a small network than by the log-loss",
            "met" if mean + 2.0 * error < 0.0 else "missed",
            f"{mean:+.4f} ± {error:.4f} of the better constant's cost, over {len(runs)} sets",
        )
        measure(f"network, {who}", mean, better="lower", slack=2.0 * error)
    by_set = [
        float(np.mean([one[r][OTHERS[5]] - one[r][OTHERS[4]] for one in divisions for r in RATIOS]))
        for divisions in runs.values()
    ]
    mean, error = spread(by_set)
    verdict(
        "Le Roux (2017), §5: more than one bound improves a network with dropout",
        "met" if mean + 2.0 * error < 0.0 else "missed",
        f"expected cost beside the log-loss, both with dropout: {mean:+.4f} ± {error:.4f}",
    )


if __name__ == "__main__":
    raise SystemExit(main())
