"""Formulas of the library as operators: links, kernels, slopes beyond a zone.

Each follows the function of the library that its docstring names, in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.estimators.anatomy import Bases, Function, Tails
from grayzone.numerics.kernels import Kernel
from grayzone.numerics.tails import differs, largest_rest
from grayzone.onnx.graph import Graph, Tensor, proto_constants, proto_nodes
from grayzone.onnx.needs import needed

Array = Any


class NotConvertibleError(ValueError):
    """Something that no file of standard operators can hold; says what, and what to do.

    See Also
    --------
    to_onnx : Raises it.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from grayzone import BayesDecisionClassifier
    >>> from grayzone.onnx import NotConvertibleError, to_onnx
    >>> odd = BayesDecisionClassifier(KNeighborsClassifier(1, metric=lambda a, b: abs(a - b).sum()))
    >>> try:
    ...     to_onnx(odd.fit([[0.0], [1.0]], ["no", "yes"]))
    ... except NotConvertibleError:
    ...     print("no file")
    no file
    """


def sigmoid(u: Tensor) -> Tensor:
    """1 / (1 + exp(-u)) as ``numerics.losses.sigmoid``: digits are kept on the left tail."""
    e = (-u.applied("Abs")).applied("Exp")
    return (u >= 0.0).where(1.0, e) / (1.0 + e)


def softmax(scores: Tensor) -> Tensor:
    """Shares exp(s_k) / sum_j exp(s_j) of each row."""
    e = (scores - scores.max(1)).applied("Exp")
    return e / e.sum(1)


def log_softmax(scores: Tensor) -> Tensor:
    """Logarithms of the same."""
    shifted = scores - scores.max(1)
    return shifted - shifted.applied("Exp").sum(1).applied("Log")


def class_probabilities(scores: Tensor, n_columns: int) -> Tensor:
    """Probabilities (n, K) of log-odds (n, 1) or of K scores."""
    if n_columns > 1:
        return softmax(scores)
    return scores.graph.concat([sigmoid(-scores), sigmoid(scores)])


def function_scores(X: Tensor, function: Function) -> Tensor:
    """Scores (n, Q) of rows."""
    values = X if function.kernel is None else kernel_values(X, function.kernel, function.vectors)
    return values @ function.coef.T + function.intercept


def kernel_values(X: Tensor, kernel: Kernel, vectors: Array) -> Tensor:
    """Kernel values (n, m) of rows with those that span a function.

    Distances are counted from the centre that the kernel has, as in ``numerics.kernels``; where
    even so sums of squares would keep too few digits, differences are squared instead.
    """
    name, gamma = kernel.name, kernel.gamma
    if callable(name):
        raise NotConvertibleError(
            "A function as kernel cannot be exported: a file holds formulas, no code. Use one of "
            "'linear', 'poly', 'rbf', 'sigmoid', 'laplacian' or 'precomputed'."
        )
    if name == "precomputed":
        return X.columns(vectors)
    if name == "linear":
        return X @ vectors.T
    if name == "laplacian":
        return (-gamma * _summed(X, vectors, "Abs")).applied("Exp")
    if name in ("poly", "sigmoid"):
        # the width is in the constant: next to a product onnxruntime would make it single precision
        inside = X @ (gamma * vectors).T + kernel.coef0
        if name == "sigmoid":
            return inside.applied("Tanh")
        return inside.applied("Pow", float(kernel.degree))
    if kernel.is_far:
        return (-gamma * _summed(X, vectors, "Square")).applied("Exp")
    centre = 0.0 if kernel.centre is None else np.asarray(kernel.centre, dtype=np.float64)
    X, vectors = X - centre, vectors - centre
    # squared norms are two more columns of the factors, as in the library: one pass over the block
    drop = -gamma * (X * X).sum(1)
    left = X.graph.concat([X, drop, drop * 0.0 + 1.0])
    drops = -gamma * np.sum(vectors**2, axis=1)
    right = np.vstack([2.0 * gamma * vectors.T, np.ones(len(vectors)), drops])
    return (left @ right).applied("Exp")


def _summed(X: Tensor, vectors: Array, operator: str) -> Tensor:
    """Sums over features of a function of differences, one feature after the other.

    All at once would take n times m times d numbers.
    """
    graph, (m, _) = X.graph, vectors.shape
    helper, types = needed("onnx").helper, needed("onnx").TensorProto
    body = Graph(prefix=f"b{len(graph.nodes)}_")
    names = [f"{body.prefix}{name}" for name in ("total", "x", "z")]
    total, x, z = map(body.input, names)
    apart = x.upright() - z
    step = apart * apart if operator == "Square" else apart.applied(operator)
    after = total + step
    nodes, constants = body.needed([after])
    double = types.DOUBLE
    inner = helper.make_graph(
        proto_nodes(nodes),
        "feature",
        [
            helper.make_tensor_value_info(name, double, shape)
            for name, shape in zip(names, ([None, m], [None], [m]), strict=True)
        ],
        [helper.make_tensor_value_info(after.name, double, [None, m])],
        proto_constants(constants),
    )
    start = X.column(0).upright() * 0.0 + np.zeros((1, m))
    rows = X.applied("Transpose", perm=[1, 0])
    columns = np.ascontiguousarray(vectors.T)
    return graph.add("Scan", start, rows, columns, body=inner, num_scan_inputs=2)


def basis_scores(X: Tensor, bases: Bases) -> Tensor:
    """Scores (n, 1) or (n, K) of a sparse minimax machine, as ``Family.matrix`` has them."""
    if bases.name == "callable":
        raise NotConvertibleError(
            "A function as basis cannot be exported: a file holds formulas, no code. Use "
            "'gaussian', 'poly' or 'tanh'."
        )
    if not bases.coef.shape[1]:
        return X.column(0).upright() * 0.0 + bases.intercept
    centres, gammas = bases.centres, bases.gammas
    if bases.name != "gaussian":
        s = X @ (gammas * centres).T + bases.coef0
        poly = bases.name == "poly"
        values = s.applied("Pow", float(bases.degree)) if poly else s.applied("Tanh")
    else:
        middle = centres.mean(axis=0)
        X, centres = X - middle, centres - middle
        s = 2.0 * (X @ (gammas * centres).T) - (X * X) @ gammas.T
        values = (s - np.sum(gammas * centres**2, axis=1)).applied("Min", 0.0).applied("Exp")
    return values @ bases.coef.T + bases.intercept


def stretched(scores: Tensor, n_columns: int, tails: Tails) -> Tensor:
    """Scores with slopes and bends beyond the zone, as ``numerics.tails.stretched``."""
    if n_columns == 1:
        out = scores
        for sign, end, slope, bend in zip(
            (-1.0, 1.0), tails.ends, tails.slopes, tails.bends, strict=True
        ):
            # a class that is never beyond has an infinite end, of which nothing may be multiplied
            if np.isfinite(end) and differs(slope, bend):
                beyond = (sign * scores - end).applied("Max", 0.0)
                new = sign * end + _bent(beyond, sign * slope, bend)
                out = (beyond > 0.0).where(new, out)
        return out
    places = np.arange(n_columns)
    leads = scores.argmax().upright().equals(places)
    others = leads.where(-np.inf, scores)
    second = others.max(1)
    rest = second + (others - second).applied("Exp").sum(1).applied("Log")
    known = differs(tails.slopes, tails.bends)
    ends = np.where(known & np.isfinite(tails.ends), tails.ends, 1e300)
    beyond = (scores - rest - ends).applied("Max", 0.0)
    drowns = rest.applied("Abs") > largest_rest(np.finfo(np.float64).eps)
    off = drowns.where(rest, 0.0)
    return (leads & (beyond > 0.0)).where(
        rest - off + ends + _bent(beyond, tails.slopes, tails.bends), scores - off
    )


def _bent(beyond: Tensor, slopes: Any, bends: Any) -> Tensor:
    """Log-odds that distances beyond the ends of the zone become."""
    curved = np.asarray(bends) > 0.0
    if not np.any(curved):
        return slopes * beyond
    factors = np.where(curved, bends, 1.0)
    logarithm = (1.0 + factors * beyond).applied("Log") / factors
    if np.all(curved):
        return slopes * logarithm
    return slopes * beyond.graph.constant(curved).where(logarithm, beyond)


def adjusted(proba: Tensor, seen: Array, today: Array) -> Tensor:
    """Probabilities under other class shares, as ``decision.adjust_prior``."""
    factors = today / seen
    products = proba * (factors / factors.max())
    total = products.sum(1)
    certain = proba.equals(proba.max(1)).cast("DOUBLE")
    kept = (total > 0.0).where(products, certain)
    return kept / kept.sum(1)
