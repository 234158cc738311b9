"""Which types of this package a saved estimator consists of."""

from __future__ import annotations

_OWN = (
    "grayzone.estimators.bayes.BayesDecisionClassifier",
    "grayzone.estimators.decision_ensemble.DecisionEnsembleClassifier",
    "grayzone.estimators.import_vector.ImportVectorMachine",
    "grayzone.estimators.import_vector_cv.ImportVectorMachineCV",
    "grayzone.estimators.minimax.MinimaxProbabilityMachine",
    "grayzone.estimators.rate_limit.RateLimitClassifier",
    "grayzone.estimators.sparse_minimax.SparseMinimaxProbabilityMachine",
    "grayzone.estimators.table_features.ScaledFeatures",
    "grayzone.estimators.table_features.TableColumns",
    "grayzone.estimators.tight_bound.TightBoundLogisticRegression",
    "grayzone.estimators.tight_bound_classifier.TightBoundClassifier",
    "grayzone.estimators.tight_bound_cv.TightBoundLogisticRegressionCV",
    "grayzone.estimators.tree_sum.TreeSum",
    "grayzone.estimators.truncated.TruncatedLogisticRegression",
    "grayzone.estimators.truncated_cv.TruncatedLogisticRegressionCV",
    "grayzone.metrics.scorer.CostScorer",
    "grayzone.numerics.kernels.Kernel",
    "grayzone.solvers.minimax.basis.Family",
    "grayzone.solvers.policy.online.OnlinePolicy",
    # what fills gaps in an ensemble, and splits that searches are given, which skops does not know
    "numpy.dtype",
    "sklearn.model_selection._split.StratifiedKFold",
)


def trusted_types() -> list[str]:
    """Return the names of the types that saved estimators of this package consist of.

    For ``skops.io.load(file, trusted=grayzone.trusted_types())`` and MLflow, which otherwise refuse
    them. None of these opens files or runs what a file says. Types of scikit-learn, NumPy and SciPy
    are a matter of skops and not among them; those of a classifier that is wrapped may have to be
    added. What ``grayzone train`` wrote is loaded, and looked into, by :func:`grayzone.load_model`.

    MLflow wants them when a model is logged, ``mlflow.sklearn.log_model(model, name="model",
    serialization_format="skops", skops_trusted_types=grayzone.trusted_types())``, and then loads
    it, as a scikit-learn model or by pyfunc (tried with MLflow 3.17 and skops 0.16).

    Returns
    -------
    names : list of str
        Full names, in alphabetical order.

    See Also
    --------
    grayzone.load_model : Load a decision model, which checks its types by itself.

    Examples
    --------
    >>> import skops.io
    >>> from sklearn.datasets import load_iris
    >>> import grayzone
    >>> X, y = load_iris(return_X_y=True)
    >>> model = grayzone.TruncatedLogisticRegression().fit(X, y)
    >>> saved = skops.io.dumps(model)
    >>> loaded = skops.io.loads(saved, trusted=grayzone.trusted_types())
    >>> bool((loaded.predict(X) == model.predict(X)).all())
    True
    """
    return sorted(_OWN)
