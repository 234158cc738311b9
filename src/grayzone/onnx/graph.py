"""A graph of ONNX operators that reads like the formulas it computes.

A :class:`Tensor` is a value of the graph; ``a * b``, ``a @ b`` or ``a >= b`` add an operator to it.
Numbers are doubles unless an array says otherwise. What no output needs is left out at the end, so
that a converter may write down more than is asked of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grayzone.onnx.needs import needed

Array = Any

OPSET = 19  # the first that compares text
ML_OPSET, TREE_OPSET = 3, 5  # of ai.onnx.ml; the latter has trees in double precision
ML = "ai.onnx.ml"
IR_VERSION = 9
KINDS = {"f8": "DOUBLE", "f4": "FLOAT", "i8": "INT64", "b1": "BOOL", "O": "STRING"}


class Tensor:
    """A value of a graph."""

    __array_ufunc__ = None  # NumPy leaves it to the methods below

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    def __add__(self, other: Any) -> Tensor:
        return self.graph.add("Add", self, other)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Tensor:
        return self.graph.add("Mul", self, other)

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> Tensor:
        return self.graph.add("Sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self.graph.add("Sub", other, self)

    def times(self, factors: Array) -> Tensor:
        """Columns (n, d) times factors (d,), next to a matrix product or not.

        onnxruntime takes a single factor into a product, and rounds it to single precision.
        """
        return self._by_columns("Mul", factors)

    def over(self, divisors: Array) -> Tensor:
        """Columns (n, d) divided by divisors (d,), in the same way."""
        return self._by_columns("Div", divisors)

    def _by_columns(self, operator: str, numbers: Array) -> Tensor:
        numbers = np.reshape(np.asarray(numbers, dtype=np.float64), (1, -1))
        if numbers.size > 1:
            return self.graph.add(operator, self, numbers)
        twice = self.columns([0, 0])  # two factors are left where they are
        return self.graph.add(operator, twice, np.repeat(numbers, 2, axis=1)).columns([0])

    def __truediv__(self, other: Any) -> Tensor:
        return self.graph.add("Div", self, other)

    def __matmul__(self, other: Any) -> Tensor:
        return self.graph.add("MatMul", self, other)

    def __neg__(self) -> Tensor:
        return self.graph.add("Neg", self)

    def __ge__(self, other: Any) -> Tensor:
        return self.graph.add("GreaterOrEqual", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return self.graph.add("Greater", self, other)

    def __le__(self, other: Any) -> Tensor:
        return self.graph.add("LessOrEqual", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return self.graph.add("Less", self, other)

    def __and__(self, other: Any) -> Tensor:
        return self.graph.add("And", self, other)

    def __or__(self, other: Any) -> Tensor:
        return self.graph.add("Or", self, other)

    def __invert__(self) -> Tensor:
        return self.graph.add("Not", self)

    def equals(self, other: Any) -> Tensor:
        """Whether values are the same, one by one."""
        return self.graph.add("Equal", self, other)

    def applied(self, operator: str, *others: Any, **attributes: Any) -> Tensor:
        """Apply an operator by its name."""
        return self.graph.add(operator, self, *others, **attributes)

    def where(self, yes: Any, no: Any) -> Tensor:
        """Choose values by this condition."""
        return self.graph.add("Where", self, yes, no)

    def sum(self, axis: int, keep: bool = True) -> Tensor:
        """Sums along an axis."""
        return self.graph.add("ReduceSum", self, np.array([axis]), keepdims=int(keep))

    def max(self, axis: int, keep: bool = True) -> Tensor:
        """Largest values along an axis."""
        return self.graph.add("ReduceMax", self, np.array([axis]), keepdims=int(keep))

    def min(self, axis: int, keep: bool = True) -> Tensor:
        """Smallest values along an axis."""
        return self.graph.add("ReduceMin", self, np.array([axis]), keepdims=int(keep))

    def argmax(self) -> Tensor:
        """Place (n,) of the first of the largest values of each row."""
        return self.graph.add("ArgMax", self, axis=1, keepdims=0)

    def columns(self, places: Sequence[int] | Array) -> Tensor:
        """Some columns of a matrix, in this order."""
        return self.graph.add("Gather", self, np.asarray(places, dtype=np.int64), axis=1)

    def column(self, place: int) -> Tensor:
        """One column, as a vector (n,)."""
        return self.graph.add("Gather", self, np.array(place, dtype=np.int64), axis=1)

    def upright(self) -> Tensor:
        """Return a vector (n,) as a column (n, 1)."""
        return self.graph.add("Unsqueeze", self, np.array([1]))

    def cast(self, kind: str) -> Tensor:
        """Values of another type, by the name that ONNX has for it."""
        return self.graph.add("Cast", self, to=kind)


@dataclass(frozen=True)
class Node:
    """An operator: inputs and outputs by name."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    domain: str
    attributes: dict[str, Any]


@dataclass
class Graph:
    """Operators and constants, in the order in which they were added.

    Attributes
    ----------
    nodes : list of Node
        Operators.
    constants : dict
        Arrays by name.
    defaults : dict
        Inputs that need not be given: names, and arrays that stand for them.
    shapes : dict
        Shapes of these inputs, with names for lengths that are free.
    kept : dict
        What was made of something already, by any key: it is not made twice.
    prefix : str
        What names of values begin with: those in the body of a loop are others than around it.

    Examples
    --------
    >>> from grayzone.onnx.graph import Graph
    >>> graph = Graph()
    >>> x = graph.input("x")
    >>> y = (2.0 * x + 1.0).applied("Exp")
    >>> [node.operator for node in graph.nodes]
    ['Mul', 'Add', 'Exp']
    """

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    defaults: dict[str, Array] = field(default_factory=dict)
    shapes: dict[str, list[Any]] = field(default_factory=dict)
    kept: dict[Any, Any] = field(default_factory=dict)
    prefix: str = ""
    _known: dict[Any, str] = field(default_factory=dict)

    def input(self, name: str) -> Tensor:
        """Return a value that comes from outside."""
        return Tensor(self, name)

    def default_input(self, name: str, value: Array, shape: list[Any]) -> Tensor:
        """Return a value that may come from outside, and is this one where it does not."""
        self.defaults[name], self.shapes[name] = np.asarray(value, dtype=np.float64), shape
        return Tensor(self, name)

    def constant(self, value: Any) -> Tensor:
        """Return a constant; equal ones are one."""
        array = _plain(value)
        data = tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes()
        key = array.dtype.str, array.shape, data
        if key not in self._known:
            self._known[key] = f"{self.prefix}c{len(self.constants)}"
            self.constants[self._known[key]] = array
        return Tensor(self, self._known[key])

    def add(self, operator: str, *inputs: Any, domain: str = "", **attributes: Any) -> Tensor:
        """Add an operator, and return what it gives."""
        names = tuple(
            value.name if isinstance(value, Tensor) else self.constant(value).name
            for value in inputs
        )
        output = f"{self.prefix}v{len(self.nodes)}"
        self.nodes.append(Node(operator, names, (output,), domain, attributes))
        return Tensor(self, output)

    def concat(self, parts: Sequence[Tensor]) -> Tensor:
        """Put matrices beside each other."""
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=1)

    def needed(self, outputs: Sequence[Tensor]) -> tuple[list[Node], dict[str, Array]]:
        """Return the operators that outputs need, in order, and their constants."""
        wanted, nodes = {tensor.name for tensor in outputs}, []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                nodes.append(node)
                wanted.update(node.inputs)
        used = {name: array for name, array in self.constants.items() if name in wanted}
        for name in [name for name in self.defaults if name not in wanted]:
            del self.defaults[name], self.shapes[name]
        return nodes[::-1], used


def _plain(value: Any) -> Array:
    """Return an array of one of the types that graphs have."""
    array = np.asarray(value)
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    return array


def kind_of(array: Array) -> str:
    """Return the name that ONNX has for the type of an array."""
    return KINDS[array.dtype.str.lstrip("<>|=") if array.dtype != object else "O"]


def proto_nodes(nodes: Sequence[Node], rename: Any = None) -> list[Any]:
    """Return operators as ONNX has them; ``rename`` gives values their final names."""
    helper, types = needed("onnx").helper, needed("onnx").TensorProto
    name = rename or (lambda value: value)
    made = []
    for node in nodes:
        given = dict(node.attributes)
        if node.operator == "Cast":
            given["to"] = getattr(types, given["to"])
        made.append(
            helper.make_node(
                node.operator,
                [name(value) for value in node.inputs],
                [name(value) for value in node.outputs],
                name=f"{node.operator}_{name(node.outputs[0])}",  # older runtimes want one
                domain=node.domain,
                **given,
            )
        )
    return made


def proto_constants(constants: dict[str, Array]) -> list[Any]:
    """Return constants as ONNX has them."""
    numpy_helper = needed("onnx").numpy_helper
    return [numpy_helper.from_array(array, name) for name, array in constants.items()]


def ml_opset(nodes: Sequence[Node]) -> int | None:
    """Return the version of the operators for machine learning, None where none is used."""
    used = {node.operator for node in nodes if node.domain == ML}
    if "TreeEnsemble" not in used:
        return ML_OPSET if used else None
    if old := sorted(used & {"TreeEnsembleClassifier", "TreeEnsembleRegressor"}):
        raise ValueError(
            f"{old[0]} of skl2onnx cannot stand in one file with trees in double precision; export "
            "the model without one of its tree members."
        )
    return TREE_OPSET
