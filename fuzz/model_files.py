"""Model files that were damaged or crafted: loaded and right, or refused in one sentence.

Half of the changes are to the bytes of a file, as disks and wires make them; the others are to what
is in it, sealed again with a manifest that fits, as somebody would who means harm.
"""

import io
import json
import math
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import pandas as pd

from fuzz.model_parts import Parts, array, bomb, one_chain, parts_of, small_model, small_table
from grayzone.estimators.facts import facts_of
from grayzone.tables.errors import UserError
from grayzone.training import archive
from grayzone.training.contents import SCHEMA
from grayzone.training.model import FORMAT, DecisionModel

# what is tried: the family, the kind of table, the number of classes
BASES = (
    ("logistic-regression", "numbers", 2),
    ("truncated", "numbers", 2),
    ("tight-bound", "numbers", 2),
    ("minimax", "numbers", 2),
    ("import-vector", "numbers", 3),
    ("kernel-logistic", "numbers", 3),
    ("boosting", "numbers", 2),
    ("splines", "mixed", 2),
    ("tight-bound", "mixed", 2),
    ("random-forest", "mixed", 3),
    ("ensemble", "mixed", 2),
)
_LIGHT = 7  # so many are small
_RARE = 0.2  # how often a large base is taken
_LONGEST = 400  # characters of a sentence
_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, -(2**31), 2**63, 10**40, 0.5, -0.0, 1e308, math.nan),
    *(math.inf, -math.inf, "", "abc", "filename", "\0", "é" * 9, [], [1], [[0]], {}, {"a": 1}),
)

Random = random.Random
Change = Callable[[Random, bytes], bytes]


@cache
def base(name: str, kind: str, n_classes: int) -> bytes:
    """Return a whole model file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.skops")
        small_model(name, kind, n_classes).save(path)
        return path.read_bytes()


@cache
def _parts(raw: bytes) -> Parts:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.skops")
        path.write_bytes(raw)
        return parts_of(path)


def mutated(seed: int) -> tuple[bytes, str]:
    """Return a changed model file, and how it was changed."""
    rng = Random(seed)
    light, heavy = BASES[:_LIGHT], BASES[_LIGHT:]
    which = rng.choice(heavy if rng.random() < _RARE else light)
    change = rng.choice(CHANGES)
    raw = base(*which)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        raw = change(rng, raw)
    return raw, f"{change.__name__} of {which[0]}"


# Changes of bytes


def flipped(rng: Random, raw: bytes) -> bytes:
    """Change some bytes."""
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 2, 8, 64))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def cut_off(rng: Random, raw: bytes) -> bytes:
    """Leave out the end, the beginning, or a piece between."""
    a, b = sorted(rng.randrange(len(raw) + 1) for _ in range(2))
    return rng.choice((raw[:a], raw[b:], raw[:a] + raw[b:]))


def joined(rng: Random, raw: bytes) -> bytes:
    """Put something behind, before or within."""
    other = rng.choice((raw, b"\0" * 100, b"PK\3\4", b"PK\5\6" + bytes(18), rng.randbytes(50)))
    at = rng.choice((0, len(raw), rng.randrange(len(raw))))
    return raw[:at] + other + raw[at:]


def listed_otherwise(rng: Random, raw: bytes) -> bytes:
    """Change the list of parts at the end: names, sizes, methods, places."""
    start = raw.rfind(b"PK\1\2") if rng.random() < 0.5 else raw.find(b"PK\1\2")
    changed = bytearray(raw)
    at = rng.randrange(start, len(raw)) if start >= 0 else len(raw) - 1
    for k in range(rng.choice((1, 2, 4))):
        changed[min(at + k, len(raw) - 1)] = rng.choice((0, 1, 255, rng.randrange(256)))
    return bytes(changed)


def exploding(rng: Random, raw: bytes) -> bytes:
    """Make a file that unpacks to very much, whether it says so or not."""
    size = rng.choice((2**20, 2**26, 2**30, 3 * 2**30))
    return bomb(size, rng.choice((None, None, 0, 100, 2**20)), rng.choice((SCHEMA, "a.npy")))


# Changes of what is in a file


def _resealed(parts: Parts, version: Any = FORMAT) -> bytes:
    return archive.pack(parts, version)


def _taken(raw: bytes) -> Parts | None:
    """Parts of a file, where it has not been broken by an earlier change."""
    try:
        return dict(_parts(raw))
    except Exception:  # whatever a broken file makes a parser do
        return None


def parts_changed(rng: Random, raw: bytes) -> bytes:
    """Leave parts out, exchange them, add some, or write another manifest."""
    parts = _taken(raw)
    if parts is None:
        return flipped(rng, raw)
    names = sorted(parts)
    one, other = rng.choice(names), rng.choice(names)
    match rng.randrange(6):
        case 0:
            del parts[one]
        case 1:
            parts[one], parts[other] = parts[other], parts[one]
        case 2:
            parts[rng.choice(("more.npy", "../../escape", "/etc/x", "a/b", "é"))] = b"1"
        case 3:
            parts[one] = flipped(rng, parts[one]) if parts[one] else b"1"
        case 4:
            return _resealed(parts, rng.choice(_ODD))
        case 5:
            manifest = rng.choice((b"", b"[]", b"{", b'{"format": 4, "parts": {}}', b"\xff"))
            return archive.stored({"manifest.json": manifest, **parts}).getvalue()
    return _resealed(parts)


def arrays_changed(rng: Random, raw: bytes) -> bytes:
    """Change an array: its values, shape, type or order."""
    parts = _taken(raw)
    names = sorted(name for name in parts or () if name.endswith(".npy"))
    if not parts or not names:
        return flipped(rng, raw)
    name = rng.choice(names)
    try:
        values = np.load(io.BytesIO(parts[name]), allow_pickle=False)
        parts[name] = array(_other_array(rng, values))
    except (ValueError, TypeError, OverflowError, EOFError, OSError, TokenError):  # by a change
        parts[name] = flipped(rng, parts[name]) if parts[name] else b"1"
    return _resealed(parts)


def _other_array(rng: Random, values: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        match rng.randrange(7):
            case 0:
                return values[..., :-1] if values.ndim else values.reshape(1)
            case 1:
                return np.concatenate([values.ravel(), values.ravel()])
            case 2:
                return values.T[..., None] if rng.random() < 0.5 else values.ravel()
            case 3:
                kinds = ("f4", "f8", "i4", "i8", "u1", ">f8", "c16", "U3", "M8[us]", "V8", "?")
                return values.astype(rng.choice(kinds))
            case 4:
                return np.zeros(rng.choice(((0,), (0, 8), (1,), (3, 3), (2, 2, 2), (1000,))))
            case 5 if values.ndim:
                return np.asfortranarray(values[::-1])
        changed = np.array(values)
        if changed.size:
            odd = (np.nan, np.inf, -np.inf, 1e308, -1, 0, 7, 2**31, -(2**31), 2**62, 1e-300)
            changed.flat[rng.randrange(changed.size)] = rng.choice(odd)
        return changed


def schema_changed(rng: Random, raw: bytes) -> bytes:
    """Change a node of the tree: its type, loader, content, number or children."""
    parts = _taken(raw)
    try:
        schema = json.loads((parts or {})[SCHEMA])
        nodes = list(_nodes(schema))
        _change_node(rng, rng.choice(nodes), nodes)
        text = json.dumps(schema)
    except (LookupError, ValueError, RecursionError, TypeError):  # by an earlier change
        return flipped(rng, raw)
    assert parts is not None
    return _resealed(parts | {SCHEMA: text.encode()})


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "__loader__" in value:
            yield value
        for inner in value.values():
            yield from _nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _nodes(inner)


def trees_changed(rng: Random, raw: bytes) -> bytes:
    """Put a chain of nodes in the place of trees, or let many of them begin at the same node."""
    parts = _taken(raw)
    try:
        nodes = list(_nodes(json.loads((parts or {})[SCHEMA])))
        trees = rng.choice([node for node in nodes if node.get("__class__") == "TreeSum"])
        chain = one_chain(rng.choice((3, 300, 150_000)), rng.choice((1, 2, 200, 2_000_000)))
        names = rng.choice((list(chain), ["roots_", "columns_"]))
        files = {trees["content"]["content"][name]["file"]: array(chain[name]) for name in names}
    except (LookupError, ValueError, RecursionError, TypeError):  # no trees, or an earlier change
        return flipped(rng, raw)
    assert parts is not None
    return _resealed(parts | files)


_TYPES = (
    *(("os", "system"), ("builtins", "eval"), ("builtins", "dict"), ("subprocess", "Popen")),
    *(("sklearn.pipeline", "Pipeline"), ("sklearn.feature_extraction.text", "CountVectorizer")),
    *(("sklearn.linear_model._logistic", "LogisticRegression"), ("numpy", "ndarray")),
    *(("sklearn.svm._classes", "SVC"), ("operator", "methodcaller"), ("functools", "partial")),
)
_LOADERS = (
    *("DictNode", "ListNode", "TupleNode", "ObjectNode", "JsonNode", "NdArrayNode", "CachedNode"),
    *("FunctionNode", "MethodNode", "OperatorFuncNode", "PartialNode", "TypeNode", "BytesNode"),
    *("ReduceNode", "TreeNode", "LossNode", "RandomStateNode", "RandomGeneratorNode", "Odd", 3),
)


def _change_node(rng: Random, node: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    other = rng.choice(nodes)
    match rng.randrange(9):
        case 0:
            node["__module__"], node["__class__"] = rng.choice(_TYPES)
        case 1:
            node["__loader__"] = rng.choice(_LOADERS)
        case 2:
            node["__id__"] = rng.choice((other.get("__id__"), *_ODD))
        case 3:
            node["content"] = json.dumps(rng.choice(_ODD))
        case 4:
            node["content"] = rng.choice((other.get("content"), *_ODD))
        case 5:
            node.pop(rng.choice(sorted(node)))
        case 6:
            copied = dict(other)
            node.clear()
            node.update(copied)
        case 7:
            node[rng.choice(("protocol", "type", "file", "shape", "key_types"))] = rng.choice(_ODD)
        case 8 if isinstance(node.get("content"), dict) and node["content"]:
            inner = rng.choice(sorted(node["content"]))
            if rng.random() < 0.5:
                del node["content"][inner]
            else:
                node["content"][inner] = other


def note_changed(rng: Random, raw: bytes) -> bytes:
    """Change a field of the note, or one within it."""
    parts = _taken(raw)
    try:
        schema = json.loads((parts or {})[SCHEMA])
        holder = schema["content"]["grayzone_model"]
        note = json.loads(json.loads(holder["content"]))
        place = note
        while isinstance(place, dict | list) and place and rng.random() < 0.7:
            key = (
                rng.choice(sorted(place)) if isinstance(place, dict) else rng.randrange(len(place))
            )
            if not isinstance(place[key], dict | list) or rng.random() < 0.4:
                place[key] = rng.choice(_ODD)
                break
            place = place[key]
        else:
            note.pop(rng.choice(sorted(note)))
        holder["content"] = json.dumps(json.dumps(note))
    except (LookupError, ValueError, TypeError, AttributeError):  # by an earlier change
        return flipped(rng, raw)
    assert parts is not None
    return _resealed(parts | {SCHEMA: json.dumps(schema).encode()})


def settings_changed(rng: Random, raw: bytes) -> bytes:
    """Give an attribute of an estimator a plain value of another kind."""
    parts = _taken(raw)
    try:
        schema = json.loads((parts or {})[SCHEMA])
        plain = [node for node in _nodes(schema["content"]["estimator"]) if "is_json" in node]
        for _ in range(rng.choice((1, 1, 3))):
            rng.choice(plain)["content"] = json.dumps(rng.choice(_ODD))
    except (LookupError, ValueError, TypeError):  # by an earlier change
        return flipped(rng, raw)
    assert parts is not None
    return _resealed(parts | {SCHEMA: json.dumps(schema).encode()})


CHANGES: tuple[Change, ...] = (
    *(flipped, cut_off, joined, listed_otherwise, exploding),
    *(parts_changed, arrays_changed, arrays_changed, trees_changed),
    *(schema_changed, schema_changed),
    *(note_changed, settings_changed, settings_changed),
)


def check_model_file(seed: int) -> None:
    """Load a changed model file, and decide by it where it is taken.

    Raises
    ------
    AssertionError
        If it is neither refused in one sentence nor gives decisions that are right.
    """
    raw, how = mutated(seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "model.skops")
        path.write_bytes(raw)
        try:
            model = DecisionModel.load(path)
        except UserError as error:
            _check_sentence(str(error), how)
        else:
            _check_decisions(model, how)
        left = [file.name for file in Path(folder).iterdir()]
        assert left == ["model.skops"], f"files were made ({how}): {left}"


def _check_sentence(text: str, how: str) -> None:
    assert 10 < len(text) < _LONGEST, f"a refusal is no sentence ({how}): {text[:500]}"
    assert "\n" not in text, f"a refusal has several lines ({how}): {text!r}"


def _check_decisions(model: DecisionModel, how: str) -> None:
    names = set(model.schema.names)
    table = next(
        (t for t in map(small_table, ("numbers", "mixed")) if names <= set(t.columns)), None
    )
    if table is None:  # columns of other names: nothing here fits
        table = pd.DataFrame({name: [0.0, 1.0] for name in names})
    try:
        decided = model.decide(table)
    except UserError as error:
        _check_sentence(str(error), how)
        return
    numbers = decided.select_dtypes("number").to_numpy()
    assert np.isfinite(numbers).all(), f"results are not finite ({how})"
    proba = decided[[f"probability_{label}" for label in model.stakes.classes]].to_numpy()
    assert (proba >= 0).all(), f"a probability is negative ({how}): {proba.min()}"
    assert np.abs(proba.sum(axis=1) - 1.0).max() < 1e-6, f"probabilities do not add up ({how})"
    decisions = decided["decision"][~decided["undecided"]]
    assert set(decisions) <= set(model.classes_.tolist()), f"labels ({how})"
    facts_of(model.estimator)
