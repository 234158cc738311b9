"""Exported decision models on tables, to check that they decide as the model itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from grayzone.onnx.checking import run, session_of
from grayzone.onnx.export import METADATA
from grayzone.tables.errors import UserError
from grayzone.tables.schema import Schema

Table = Any  # a pandas DataFrame

SUFFIX = ".onnx"


@dataclass(frozen=True)
class ExportedModel:
    """A decision model as ``grayzone export`` writes it, run by onnxruntime.

    Parameters
    ----------
    session : onnxruntime.InferenceSession
        What runs it.
    facts : dict
        What the file says of itself.
    """

    session: Any
    facts: dict[str, Any]

    @classmethod
    def load(cls, path: Path) -> ExportedModel:
        """Read a file.

        Raises
        ------
        UserError
            If it is no decision model, or is damaged.
        """
        if not path.is_file():
            raise UserError(f"{path} does not exist; expected what `grayzone export` wrote.")
        try:
            session = session_of(path)
            facts = json.loads(session.get_modelmeta().custom_metadata_map[METADATA])
            schema = facts["schema"]
        except ImportError as error:
            raise UserError(str(error)) from error
        except Exception as error:  # whatever a damaged file makes a parser do
            reason = " ".join(str(error).split())[:200]
            raise UserError(
                f"{path} is no decision model that `grayzone export` wrote: {reason}"
            ) from error
        if not isinstance(schema, list):
            raise UserError(f"{path} does not say which columns it needs.")
        return cls(session, facts)

    @property
    def schema(self) -> Schema:
        """Columns that it needs."""
        return Schema.load(self.facts["schema"], self.facts.get("beside", []))

    def decide(self, table: Table) -> Table:
        """Return the decision about each row of a table, and the probabilities.

        Parameters
        ----------
        table : DataFrame
            With the columns that the model needs.

        Returns
        -------
        decisions : DataFrame
            ``decision``, whether it is ``undecided``, and ``probability_<label>``.
        """
        known = self.schema
        table = known.with_numbers(table)
        given = known.apply(table)
        for name in self.facts.get("cost_columns") or ():
            if name is not None and name not in table:
                raise UserError(f"The table lacks the column {name!r}, which has costs of rows.")
            if name is not None:
                given[name] = table[name].astype(np.float64)
        said = run(self.session, given)
        decision, undecided = said["label"], np.zeros(len(table), dtype=np.bool_)
        if "decision" in said:
            decision = said["decision"]
            undecided = decision == self.facts["undecided"]
        out: dict[str, Any] = {"decision": decision, "undecided": undecided}
        for k, label in enumerate(self.facts["classes"]):
            out[f"probability_{label}"] = said["probabilities"][:, k]
        return pd.DataFrame(out, index=table.index)
