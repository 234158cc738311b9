"""All benchmarks by name: what each runs, and what it cannot do without."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A benchmark.

    Parameters
    ----------
    name : str
        Its name on the command line.
    kind : {"papers", "peers"}
        What it belongs to.
    module : str
        The module to run.
    title : str
        Heading in RESULTS.md.
    full, quick : tuple of str
        Its arguments in a full and in a quick run.
    data : tuple of str
        Data sets it cannot do without.
    large : bool
        Whether it needs gigabytes, a cluster or a GPU, and runs only if it is asked for.
    gpu : bool
        Whether it cannot do without a CUDA device.
    """

    name: str
    kind: str
    module: str
    title: str
    full: tuple[str, ...] = ()
    quick: tuple[str, ...] = ("--quick",)
    data: tuple[str, ...] = ()
    large: bool = False
    gpu: bool = False

    def arguments(self, quick: bool) -> tuple[str, ...]:
        """Return the arguments of a run."""
        return self.quick if quick else self.full


FIVE_SETS = ("breast_cancer_wisconsin", "ionosphere", "pima_diabetes", "sonar")
ENTRIES = (
    # the longest first, so that no processor waits for it in the end
    Entry(
        "tight-bound-tables",
        "papers",
        "benchmarks.papers.tight_bound_tables",
        "Le Roux (2017), Tables 1, 3 and 4: test error of tighter bounds",
        data=("covtype", "ijcnn1", "mnist"),
    ),
    Entry(
        "minimax-tables",
        "papers",
        "benchmarks.papers.sparse_minimax_tables",
        "Strohmann et al. (2004), Tables 1 and 2: sparse and standard minimax machines",
        data=FIVE_SETS,
    ),
    Entry(
        "minimax-studies",
        "papers",
        "benchmarks.papers.sparse_minimax_studies",
        "Strohmann et al. (2004), what it leaves open: Twonorm, Sonar, boosting, errors of moments",
        data=("covtype", "ijcnn1", "spambase", *FIVE_SETS),
    ),
    Entry(
        "minimax-figures",
        "papers",
        "benchmarks.papers.sparse_minimax_figures",
        "Strohmann et al. (2004), Figures 1 to 3: bounds along the bases, feature weights",
        data=FIVE_SETS,
    ),
    Entry(
        "undecided",
        "papers",
        "benchmarks.tight_bound_studies",
        "Le Roux (2017), §4.2: staying undecided, beside Chow's rule",
        ("reject", "--splits", "10"),
        ("reject", "--quick"),
        (
            "covtype",
            "ijcnn1",
            "spambase",
            "german_credit_numeric",
            "pima_diabetes",
            "statlog_heart",
        ),
    ),
    Entry(
        "rate-limits",
        "papers",
        "benchmarks.tight_bound_studies",
        "Le Roux (2017), §4.1: limits on the false positive rate, beside a threshold",
        ("fpr", "--splits", "20"),
        ("fpr", "--quick"),
        ("covtype", "ijcnn1", "bank_marketing", "german_credit_numeric"),
    ),
    Entry(
        "truncated-table2",
        "papers",
        "benchmarks.papers.truncated_table2",
        "Hérault & Grandvalet (2007), Table 2 and Figure 1: gray zones",
        quick=("--splits", "2"),
        data=("covtype",),
    ),
    Entry(
        "truncated-l1",
        "papers",
        "benchmarks.papers.truncated_l1",
        "Hérault & Grandvalet (2007), §3.3: Roth's l1 expansion beside gray zones",
        data=("covtype",),
    ),
    Entry(
        "truncated-table3",
        "papers",
        "benchmarks.papers.truncated_table3",
        "Hérault & Grandvalet (2007), Table 3: support vector machines on the same data",
        data=("covtype",),
    ),
    Entry(
        "tight-bound-curves",
        "papers",
        "benchmarks.papers.tight_bound_curves",
        "Le Roux (2017), Figures 1 to 5: training and validation curves",
        data=("covtype", "ijcnn1", "mnist"),
    ),
    Entry(
        "tight-bound-figures",
        "papers",
        "benchmarks.papers.tight_bound_figures",
        "Le Roux (2017), Figures 6 and 7: ROC curves, limits on the false positive rate",
        quick=("--splits", "2", "--planes", "5"),
    ),
    Entry(
        "tight-bound-frontier",
        "papers",
        "benchmarks.papers.tight_bound_frontier",
        "Le Roux (2017), §4.1: why the constrained ROC curve is not concave",
        quick=("--splits", "2"),
    ),
    Entry(
        "tight-bound-orders",
        "papers",
        "benchmarks.papers.tight_bound_orders",
        "Le Roux (2017), Table 4: orders of the four files",
        data=("ijcnn1",),
    ),
    Entry(
        "tight-bound-penalties",
        "papers",
        "benchmarks.papers.tight_bound_penalties",
        "Le Roux (2017), §5: l1, l2 and no penalty with one bound and with ten",
        data=("a9a", "spambase", "ijcnn1", "german_credit_numeric"),
    ),
    Entry(
        "import-vector-figures",
        "papers",
        "benchmarks.papers.import_vector_figures",
        "Zhu & Hastie (2002), Figures 1 to 5: import vector machines",
        quick=("--draws", "2"),
        data=("esl_mixture",),
    ),
    Entry(
        "truncated-threshold",
        "papers",
        "benchmarks.papers.truncated_threshold",
        "Hérault & Grandvalet (2007), §5.1: the threshold tuned with the penalty and the zone",
        data=("covtype", "german_credit_numeric", "statlog_heart", "spambase", *FIVE_SETS),
    ),
    Entry(
        "truncated-claims",
        "papers",
        "benchmarks.papers.truncated_claims",
        "Hérault & Grandvalet (2007), §1 and §6: time, undersampling, resampling, LDA",
        data=("covtype",),
    ),
    Entry(
        "truncated-sparsity",
        "papers",
        "benchmarks.papers.truncated_sparsity",
        "Hérault & Grandvalet (2007), §1: how sparse a zone is as rows grow in number",
        data=("esl_mixture",),
    ),
    Entry(
        "truncated-report",
        "papers",
        "benchmarks.papers.truncated_report",
        "Hérault & Grandvalet (2007), French report: Figure 1, and the cone of the ROC curve",
        data=("covtype",),
    ),
    Entry(
        "import-vector-rivals",
        "papers",
        "benchmarks.papers.import_vector_rivals",
        "Zhu & Hastie (2002), §2: other ways to as many centres, and centres that move",
        data=("esl_mixture", "ijcnn1", "statlog_heart", "spambase", *FIVE_SETS),
    ),
    Entry(
        "import-vector-gacv",
        "papers",
        "benchmarks.papers.import_vector_gacv",
        "Zhu & Hastie (2002), §2: GACV as the criterion for λ",
        data=("esl_mixture", "german_credit_numeric", "statlog_heart", *FIVE_SETS),
    ),
    Entry(
        "import-vector-cost",
        "papers",
        "benchmarks.papers.import_vector_cost",
        "Zhu & Hastie (2002), §1 and §6: what import points cost in rows and points",
        data=("esl_mixture",),
    ),
    Entry(
        "import-vector-boosting",
        "papers",
        "benchmarks.papers.import_vector_boosting",
        "Zhu & Hastie (2002), §6: boosting beside kernel machines",
        data=("esl_mixture",),
    ),
    Entry(
        "linear",
        "peers",
        "benchmarks.peers.linear",
        "Linear fits beside scikit-learn, LIBLINEAR and glum",
        ("--repeats", "2"),
        data=("covtype",),
    ),
    Entry(
        "sparse",
        "peers",
        "benchmarks.peers.sparse",
        "Sparse linear fits beside scikit-learn and LIBLINEAR",
        ("--repeats", "1"),
    ),
    Entry(
        "sparse-features",
        "peers",
        "benchmarks.peers.sparse_features",
        "Fits with an l1 penalty beside LIBLINEAR, celer, skglm and scikit-learn",
        ("--repeats", "3"),
        data=("a9a", "covtype"),
    ),
    Entry(
        "everyday",
        "peers",
        "benchmarks.peers.everyday",
        "Small fits, searches over C and rare positives beside scikit-learn",
        ("--repeats", "3"),
    ),
    Entry(
        "kernel",
        "peers",
        "benchmarks.peers.kernel",
        "Kernel fits beside SVC, scikit-learn-intelex, a calibrated SVC and Nystroem features",
        ("tune", "race", "--sizes", "2000,10000", "--tune-rows", "1500", "--repeats", "2"),
        ("tune", "race", "--quick"),
        ("covtype", "ijcnn1"),
    ),
    Entry(
        "import-vector",
        "peers",
        "benchmarks.peers.import_vector",
        "Import vector machines beside SVC, Nystroem features, fastrvm and Gaussian processes",
        ("--repeats", "2", "--retune"),
        ("--quick", "--retune"),
        ("esl_mixture", "covtype", "ijcnn1"),
    ),
    Entry(
        "minimax",
        "peers",
        "benchmarks.peers.minimax",
        "Minimax machines beside empulse and a tuned SVC",
        ("--splits", "5", "--repeats", "2"),
        data=("covtype", *FIVE_SETS),
    ),
    Entry(
        "example-costs",
        "peers",
        "benchmarks.peers.example_costs",
        "Costs of each row beside empulse's cost-sensitive models",
        data=("german_credit",),
    ),
    Entry(
        "moving",
        "peers",
        "benchmarks.peers.moving",
        "Moving from SVC(probability=True), thresholds, calibration and resampling",
        data=(
            "a9a",
            "bank_marketing",
            "covtype",
            "esl_mixture",
            "german_credit_numeric",
            "ijcnn1",
            "statlog_heart",
            "spambase",
            *FIVE_SETS,
        ),
    ),
    Entry(
        "tight-bound",
        "peers",
        "benchmarks.peers.tight_bound",
        "Ten bounds beside one logistic regression of scikit-learn",
        ("--repeats", "3"),
        data=("covtype",),
    ),
    Entry(
        "do-no-harm",
        "peers",
        "benchmarks.do_no_harm",
        "Zones and bounds as they come beside logistic regression: costs of decisions",
        data=(
            "a9a",
            "bank_marketing",
            "covtype",
            "esl_mixture",
            "german_credit_numeric",
            "ijcnn1",
            "statlog_heart",
            "spambase",
            *FIVE_SETS,
        ),
    ),
    Entry(
        "limits",
        "peers",
        "benchmarks.limits",
        "Limits on rates at a confidence of 95 %, beside nproc's umbrella and MAPIE",
        data=("covtype", "ijcnn1", "bank_marketing", "a9a", "spambase"),
    ),
    Entry(
        "train",
        "peers",
        "benchmarks.train",
        "`grayzone train` on ordinary tables beside forests, boosting and FLAML: costs and limits",
        data=("german_credit", "bank_marketing", "covtype"),
        large=True,
    ),
    Entry(
        "networks",
        "peers",
        "benchmarks.networks",
        "Losses that know the costs in a small network, beside the log-loss",
        data=("a9a", "spambase", "ijcnn1", "german_credit_numeric"),
        large=True,
    ),
    Entry(
        "latency",
        "peers",
        "benchmarks.peers.latency",
        "Predictions and models: time of one row and of many, bytes on disk",
        data=("covtype",),
    ),
    Entry(
        "out-of-core",
        "peers",
        "benchmarks.peers.out_of_core",
        "Twenty million rows that stay on the disk: memory, and readings beside plain reading",
        ("--others",),
        ("--others", "--quick"),
        large=True,
    ),
    Entry(
        "dask-cluster",
        "peers",
        "benchmarks.peers.dask_cluster",
        "A Dask cluster of one process and of two: time, bytes moved, equal coefficients",
        data=("covtype",),
        large=True,
    ),
    Entry(
        "worker-kills",
        "peers",
        "benchmarks.peers.worker_kills",
        "Workers of a Dask cluster that are killed during fits",
        large=True,
    ),
    Entry(
        "worker-kills-search",
        "peers",
        "benchmarks.peers.worker_kills",
        "The same during searches for the penalty of import vectors",
        ("--model", "search"),
        ("--model", "search", "--quick"),
        large=True,
    ),
    Entry(
        "gpu",
        "peers",
        "benchmarks.peers.gpu",
        "One GPU: exact kernels of up to 100,000 rows, a path of penalties, linear models",
        data=("covtype", "ijcnn1"),
        large=True,
        gpu=True,
    ),
)
