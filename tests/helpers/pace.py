"""How long tests take: the tables behind the markers of `tests/conftest.py`."""

# Files that are not in `-m quick`: first cases of all others take a minute on two cores.
NOT_QUICK = frozenset(
    {
        "tests/benchmarks/test_benchmark_suite.py",
        "tests/cli/test_cli.py",
        "tests/docs/test_pages_run.py",
        "tests/docs/test_site_in_a_browser.py",
        "tests/estimators/test_decision_ensemble.py",
        "tests/estimators/test_ensemble_limits.py",
        "tests/estimators/test_gates.py",
        "tests/estimators/test_import_vector.py",
        "tests/estimators/test_import_vector_blocks.py",
        "tests/estimators/test_large_sparse.py",
        "tests/estimators/test_minimax_arrays.py",
        "tests/estimators/test_sparse_minimax.py",
        "tests/estimators/test_sparse_minimax_blocks.py",
        "tests/estimators/test_tight_bound_blocks.py",
        "tests/estimators/test_truncated_arrays.py",
        "tests/estimators/test_truncated_cv.py",
        "tests/laws/test_certificates.py",
        "tests/laws/test_found_by_fuzzing.py",
        "tests/laws/test_on_a_gpu.py",
        "tests/laws/test_random_problems.py",
        "tests/numerics/test_losses.py",
        "tests/numerics/test_team.py",
        "tests/packaging/test_packaging.py",
        "tests/packaging/test_types.py",
        "tests/reporting/test_report_browser.py",
        "tests/solvers/test_greedy_on_many_rows.py",
        "tests/sources/test_blocks.py",
        "tests/sources/test_dask.py",
        "tests/sources/test_lost_client.py",
        "tests/tables/test_whole_folders.py",
        "tests/training/test_comparison_in_time.py",
        "tests/training/test_copies_stay_together.py",
        "tests/training/test_decision_model.py",
        "tests/training/test_ensemble_files.py",
        "tests/training/test_hygiene.py",
        "tests/training/test_train_walk.py",
    }
)

# Tests more of whose cases are in `-m quick` than the first: those whose names have the pattern.
EVERY_CASE = {
    "tests/laws/test_carriers.py::test_the_model_is_that_of_numpy": (
        r"\[(linear|import points|bounds|minimax|decisions)-"
    ),
    "tests/sources/test_labelled.py::test_classes_weights_and_sums_are_the_same": "",
    "tests/sources/test_labelled.py::test_held_rows_without_weight_are_not_there": "",
    "tests/sources/test_labelled.py::test_parts_share_the_rows_out": "",
}

# Tests of which a case takes more than about three seconds.
SLOW = {
    "tests/cli/test_cli.py": """
        test_a_terminal_that_knows_ascii_only test_columns_of_every_kind_with_gaps
        test_control_c_stops_without_a_trace test_files_that_grow_too_large_leave_nothing_behind
        test_text_of_many_values_is_encoded_by_the_seed
    """,
    "tests/training/test_model_files.py": """
        test_models_of_every_kind_come_back_as_they_were
        test_the_list_has_all_that_is_written_and_little_more
    """,
    "tests/tables/test_whole_folders.py": """
        test_a_kill_at_any_line_leaves_the_old_or_the_new_folder
        test_training_that_is_killed_leaves_the_old_or_the_new_model
        test_what_a_living_run_holds_is_left_alone_and_what_a_dead_one_left_is_not
    """,
    "tests/estimators/test_import_vector_blocks.py": """
        test_same_model_as_numpy
    """,
    "tests/estimators/test_large_sparse.py": """
        test_four_classes
    """,
    "tests/estimators/test_tight_bound_blocks.py": """
        test_cuts_of_blocks_are_cuts_of_all_scores
    """,
    "tests/estimators/test_truncated_arrays.py": """
        test_a_sample_is_small_also_from_small_blocks
    """,
    "tests/packaging/test_packaging.py": """
        test_import_is_light test_readme_examples_run_and_print_the_threshold
    """,
    "tests/sources/test_blocks.py": """
        test_memory_does_not_grow_with_rows
    """,
}
