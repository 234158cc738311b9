"""How long tests take: the tables behind the markers of `tests/conftest.py`.

Measured once, in seconds of one core. A name that is no longer there does no harm; a new test is in
`pytest -m quick` with its first case until someone finds that it takes too long.
"""

# Files that are not in `-m quick`: large problems, browsers, clusters, GPUs, and what the carrier
# law says already of rows in other places.
NOT_QUICK = frozenset(
    {
        "tests/docs/test_pages_run.py",
        "tests/docs/test_site_in_a_browser.py",
        "tests/estimators/test_import_vector_blocks.py",
        "tests/estimators/test_large_sparse.py",
        "tests/estimators/test_minimax_arrays.py",
        "tests/estimators/test_sparse_minimax_blocks.py",
        "tests/estimators/test_tight_bound_blocks.py",
        "tests/estimators/test_truncated_arrays.py",
        "tests/laws/test_on_a_gpu.py",
        "tests/laws/test_random_problems.py",
        "tests/reporting/test_report_browser.py",
        "tests/sources/test_dask.py",
        "tests/sources/test_lost_client.py",
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

# Tests whose first case takes more than .3 seconds: not in `-m quick`.
HEAVY = {
    "tests/docs/test_moving_pages.py": """
        test_code_runs
    """,
    "tests/training/test_comparison_in_time.py": """
        test_families_learn_from_the_same_earlier_rows_as_the_ensemble
    """,
    "tests/training/test_copies_stay_together.py": """
        test_noise_that_is_copied_is_not_learned
        test_copies_change_a_promise_by_no_more_than_chance
        test_copies_are_not_learned_from_before_they_are_decided_on
    """,
    "tests/training/test_train_walk.py": """
        test_a_column_that_alone_decides_nearly_all_holds_the_model_back
        test_a_limit_is_kept_on_new_rows_by_the_model_that_is_kept
        test_a_model_of_noise_is_not_to_be_deployed
        test_a_model_that_is_fitted_alone_is_the_one_that_is_named
        test_an_array_of_costs_is_in_the_order_of_the_classes
        test_costs_known_only_after_the_decision_are_paid_and_not_needed
        test_costs_of_rows_come_from_a_column_that_is_learned_from_too
        test_later_rows_are_decided_on_by_models_of_earlier_ones
        test_train_from_python_writes_nothing_and_names_no_flags
    """,
    "tests/training/test_segments.py": """
        test_chance_is_seldom_called_a_difference test_one_threshold_keeps_a_limit_in_every_group
    """,
    "tests/training/test_reasons.py": """
        test_of_thousands_of_columns_only_some_are_looked_at
    """,
    "tests/training/test_importance.py": """
        test_an_ensemble_is_explained_by_source_columns
        test_work_is_bounded_for_many_rows_and_columns
    """,
    "tests/training/test_decision_model.py": """
        test_costs_that_are_none test_labels_have_the_type_of_the_table
        test_probabilities_are_in_the_order_of_sorted_labels
        test_shares_in_the_gray_zone_are_not_all_or_none test_the_code_of_the_documentation_runs
        test_the_code_on_the_page_runs_as_printed test_undecided_is_a_label_of_the_same_type
    """,
    "tests/tables/test_spreadsheets.py": """
        test_labels_and_kept_columns_are_text_unless_asked_for_as_they_are
    """,
    "tests/nn/test_nn.py": """
        test_a_bound_is_above_and_touches_where_it_was_made test_a_network_learns_costs
        test_the_package_does_not_import_torch
    """,
    "tests/docs/test_api_reference.py": """
        test_docstrings_are_whole test_every_command_has_its_section
        test_options_are_those_of_the_command
    """,
    "tests/docs/test_extending_pages.py": """
        test_a_source_gives_what_numpy_gives
        test_a_loss_with_an_intercept_and_weights_reaches_the_optimum
        test_the_classifier_of_the_page_has_the_gap_that_it_tells
        test_the_strategy_never_goes_uphill
    """,
    "tests/laws/test_found_by_fuzzing.py": """
        test_a_polynomial_next_to_no_penalty_ends_below_rounding
        test_an_l1_fit_of_rows_that_are_nearly_alike_converges
        test_exact_choices_are_those_of_all_candidates_at_their_optimum
        test_exact_selection_counts_blocks_as_what_they_cost
        test_growth_ends_where_the_criterion_is_rounding_of_what_it_was
    """,
    "tests/laws/test_certificates.py": """
        test_no_gap_is_silent_and_no_fit_worse_than_a_constant
    """,
    "tests/fuzz/test_fuzz_laws.py": """
        test_a_case_shrinks_to_what_breaks_the_law test_cases_are_plain_values_and_of_every_kind
    """,
    "tests/fuzz/test_fuzz_campaign.py": """
        test_a_seed_draws_the_same_cases_whatever_the_package_is
        test_crashes_and_hangs_are_findings_that_do_not_end_a_campaign
    """,
    "tests/estimators/test_undecided_zone.py": """
        test_undecided_rows_count_as_errors_in_the_score_and_by_their_cost_in_a_search
    """,
    "tests/estimators/test_tails.py": """
        test_more_classes_have_a_slope_each_and_decide_as_before
    """,
    "tests/estimators/test_rate_limit.py": """
        test_limits_are_broken_no_more_often_than_said test_the_rates_of_a_tree
    """,
    "tests/estimators/test_limits_at_a_confidence.py": """
        test_fits_break_a_limit_no_more_often_than_said
    """,
    "tests/estimators/test_gates.py": """
        test_a_zone_that_pays_is_taken test_folds_may_repeat_rows_and_leave_some_out
        test_models_come_back_from_a_pickle test_no_scoring_is_what_it_was
        test_rows_without_a_weight_are_not_there test_several_jobs_change_nothing
        test_sparse_is_dense test_the_gate_of_zones_by_hand
        test_what_is_saved_is_told_in_the_unit_of_costs
        test_without_a_gain_it_is_plain_logistic_regression
    """,
    "tests/estimators/test_ensemble_limits.py": """
        test_a_budget_takes_the_members_that_fit test_a_limit_holds_with_its_confidence
        test_folds_in_time_leave_the_first_rows_to_learn_from test_no_group_is_on_both_sides
    """,
    "tests/estimators/test_decision_ensemble.py": """
        test_all_members_together_are_the_same_each_time
    """,
    "tests/decision/test_priors.py": """
        test_the_end_of_em
    """,
    "tests/decision/test_confidence.py": """
        test_a_precision_holds_where_scores_are_equal test_limits_hold_on_new_rows
    """,
    "tests/cli/test_demo.py": """
        test_the_demo_trains_and_the_line_that_it_prints_decides
    """,
    "tests/estimators/test_rewards.py": """
        test_a_policy_learnt_from_logs_earns_more_than_they_and_than_a_model_of_rewards
        test_rows_are_handed_over_to_an_expert_where_the_expert_is_good
        test_the_self_normalised_estimate_is_maximised_by_its_own_value_as_a_baseline
    """,
    "tests/estimators/test_policies_page.py": """
        test_the_page_runs_and_says_what_comes_out
    """,
    "tests/estimators/test_several_limits.py": """
        test_blocks_give_the_same_model test_new_rows_break_a_limit_no_more_often_than_stated
        test_steps_solve_their_convex_problems_with_one_limit_or_both_that_bind
    """,
    "tests/estimators/test_f_measure.py": """
        test_the_best_line_by_brute_force test_with_known_probabilities_it_finds_the_best_threshold
    """,
    "tests/onnx/test_decision_models.py": """
        test_every_model_of_train test_limits_and_costs_of_the_day
        test_the_command_line_exports_and_checks test_what_the_command_line_refuses
        test_dates_and_free_text_cannot_go
    """,
    "tests/onnx/test_deployment_recipes.py": "test_recipes",
    "tests/onnx/test_pipelines.py": """
        test_a_wrapper_around_a_pipeline test_an_ensemble_on_a_table
        test_the_readme_pipeline_runs_where_there_is_only_onnxruntime_and_numpy
    """,
    "tests/onnx/test_random_models.py": "test_random_models",
    "tests/onnx/test_same_decisions.py": "test_a_precomputed_kernel",
    "tests/training/test_ensemble_files.py": """
        test_calibrations_within_calibrations_are_refused
        test_coefficients_that_do_not_fit_are_refused test_features_of_a_family_fit_each_other
        test_members_share_what_comes_before_them
        test_models_that_cannot_decide_are_refused_on_loading test_models_within_models_are_refused
    """,
    "tests/training/test_model_files.py": """
        test_every_model_comes_back_as_it_was test_models_of_every_kind_come_back_as_they_were
        test_the_list_has_all_that_is_written_and_little_more
    """,
    "tests/training/test_model_notes.py": """
        test_a_note_of_such_fields_is_taken
    """,
    "tests/tables/test_whole_folders.py": """
        test_a_kill_at_any_line_leaves_the_old_or_the_new_folder
        test_training_that_is_killed_leaves_the_old_or_the_new_model
        test_what_a_living_run_holds_is_left_alone_and_what_a_dead_one_left_is_not
    """,
    "src/grayzone/displays/bound_path.py": """
        grayzone.displays.bound_path.BoundPathDisplay
    """,
    "src/grayzone/displays/feature_weights.py": """
        grayzone.displays.feature_weights.FeatureWeightDisplay
    """,
    "src/grayzone/estimators/import_vector_cv.py": """
        grayzone.estimators.import_vector_cv.ImportVectorMachineCV
    """,
    "src/grayzone/estimators/sparse_minimax.py": """
        grayzone.estimators.sparse_minimax.SparseMinimaxProbabilityMachine
    """,
    "src/grayzone/estimators/truncated_cv.py": """
        grayzone.estimators.truncated_cv.TruncatedLogisticRegressionCV
    """,
    "tests/benchmarks/test_benchmark_data.py": """
        test_esl_labels_follow_the_probabilities test_mnist_is_scaled_and_complete
    """,
    "tests/benchmarks/test_benchmark_suite.py": """
        test_commands_run_what_they_say test_everything_runs_and_is_written_down
        test_one_that_fails_does_not_stop_the_others test_quick_and_full_runs_do_not_mix
        test_the_list_from_the_command_line test_what_is_complete_is_kept
    """,
    "tests/tables/test_numerals.py": """
        test_the_command_reads_decimal_commas_the_same_way_when_it_predicts
    """,
    "tests/training/test_hygiene.py": """
        test_no_table_makes_it_fail test_the_command_says_what_it_found_and_stops_if_strict
    """,
    "tests/training/test_roles.py": """
        test_identifiers_are_carried_to_decisions_as_they_are_written
    """,
    "tests/cli/test_cli.py": """
        test_a_full_disk_keeps_earlier_decisions test_a_full_disk_leaves_nothing_behind
        test_a_later_format_is_named test_a_model_of_one_kind_of_table_decides_on_another
        test_a_model_tells_what_it_was_made_of test_an_index_of_pandas_is_no_column
        test_auto_keeps_the_ensemble_and_compares_on_the_same_rows
        test_columns_may_move_be_empty_or_more test_columns_without_values_are_left_out
        test_costs_by_label_and_by_matrix_are_the_same test_dates_of_several_zones_have_one_clock
        test_decisions_are_written_in_the_kind_asked_for test_drop_leaves_columns_out
        test_every_candidate_decides_by_costs_and_survives_saving
        test_every_candidate_keeps_a_limit_on_false_positives
        test_every_candidate_with_three_classes_and_abstention
        test_every_kind_of_table_gives_the_same_features test_files_that_are_no_model
        test_hostile_names_and_values_are_only_text test_hundreds_of_columns
        test_json_is_all_there_is_on_standard_output
        test_keep_puts_the_tables_own_columns_beside_decisions test_labels_stay_what_they_are
        test_memory_that_does_not_suffice test_models_load_in_python_too
        test_names_of_encoded_categories_may_be_there_already test_nothing_is_overwritten_unasked
        test_numbers_without_bounds_are_refused test_numbers_written_as_text_are_numbers
        test_other_files_in_the_folder_stay test_outputs_that_cannot_be_written
        test_rows_without_a_target_are_left_out_and_said test_tables_that_do_not_fit_the_model
        test_texts_some_of_which_are_numbers_are_the_same_in_every_batch
        test_the_positive_class_is_guessed_and_said
        test_the_same_seed_gives_the_same_model_and_another_one_may_not
        test_truths_written_as_text_are_numbers test_typed_columns_that_do_not_fit_the_model
        test_types_that_are_not_trusted_are_not_loaded
        test_under_a_limit_models_are_compared_by_the_positives_they_miss
        test_what_nobody_thought_of_is_one_line_unless_debugged
        test_what_there_is_no_work_left_for_is_said
    """,
    "tests/datasets/test_datasets.py": """
        test_a_file_cut_anywhere_is_damaged
    """,
    "tests/decision/test_decision.py": """
        test_a_constant_per_true_class_changes_no_decision
        test_abstention_is_the_brute_force_minimum test_bayes_decision_is_the_brute_force_minimum
        test_no_constant_decision_is_expected_to_cost_less
        test_rule_one_is_a_threshold_and_ties_are_positive test_the_unit_of_cost_changes_no_decision
        test_zone_is_symmetric_in_log_odds
    """,
    "tests/displays/test_bound_displays.py": """
        test_accuracies_along_the_bases_are_those_of_smaller_machines
        test_names_are_those_of_the_data test_pipelines_and_searches_show_the_machine_in_them
    """,
    "tests/displays/test_decision_region.py": """
        test_both_ways_lead_to_the_same_picture test_contours_of_the_probability test_more_classes
        test_probabilities_beyond_the_zone_are_said_to_be test_support_vectors_and_other_points
    """,
    "tests/estimators/test_import_vector.py": """
        test_a_zone_goes_around_the_threshold_of_the_costs test_caps_of_three_classes
        test_class_weights_are_sample_weights test_costs_of_three_classes_decide
        test_labels_of_any_kind test_memory_is_that_of_rows_times_points test_names_of_the_features
        test_nearly_spanned_rows_are_told_apart_in_double_precision
        test_no_kernel_matrix_of_all_rows test_nothing_is_left_of_an_earlier_fit
        test_one_step_chooses_nearly_as_well_as_refits test_other_choices_reach_the_same_optimum
        test_single_precision_chooses_the_same_points test_symmetric_scores_sum_to_zero
        test_the_exact_choice_is_that_of_brute_force_for_three_classes
        test_the_exact_choice_is_that_of_brute_force_on_breast_cancer test_the_path_goes_down
    """,
    "tests/estimators/test_import_vector_cv.py": """
        test_a_precomputed_kernel test_an_interruption_leaves_the_estimator_as_it_was
        test_callbacks_hear_of_folds_and_may_stop test_every_step_is_a_fit_to_the_points_so_far
        test_kinds_of_folds test_labels_and_names test_nothing_is_left_of_an_earlier_fit
        test_one_c_is_a_plain_fit test_parameters_reach_the_fits test_pickles
        test_points_are_nested_from_small_to_large_c test_rows_without_weight_are_not_there
        test_several_jobs_change_nothing test_the_best_mean_is_chosen
        test_the_model_is_the_path_to_the_chosen_c_on_all_rows
        test_the_path_costs_little_more_than_its_end test_the_path_is_that_of_the_paper
        test_the_same_seed_gives_the_same_search test_weights_are_repetitions
        test_weights_can_be_routed test_weights_reach_the_scorer
        test_without_a_refit_there_is_a_choice_but_no_model
    """,
    "tests/estimators/test_import_vector_search_blocks.py": """
        test_a_scorer_of_all_rows_is_told_scores_on_a_device
        test_rows_are_drawn_once_and_by_their_numbers
        test_scores_are_means_over_rows_as_scikit_learn_has_them
    """,
    "tests/estimators/test_kernel_fit.py": """
        test_cache_size_of_many_classes test_many_classes_and_rows_without_a_hessian
        test_predictions_by_blocks_are_those_by_row test_predictions_do_not_form_the_kernel_matrix
        test_ramp_of_three_classes test_warm_start_on_as_many_other_rows
        test_warm_start_where_the_intercept_comes_and_goes
    """,
    "tests/estimators/test_minimax.py": """
        test_dearer_errors_get_the_larger_bound test_labels_may_be_exchanged
        test_linear_optimum_is_that_of_a_conic_solver test_nothing_is_left_of_an_earlier_fit
    """,
    "tests/estimators/test_minimax_classes.py": """
        test_each_class_is_told_from_the_rest test_held_out_bounds_are_joined_in_the_same_way
        test_names_as_labels test_shapes_of_what_is_fitted test_weights_are_repetitions
    """,
    "tests/estimators/test_minimax_moment_error.py": """
        test_a_larger_error_makes_a_smaller_bound
        test_costs_of_rows_are_weighed_by_the_bounds_that_hold
        test_no_moments_of_the_set_break_the_bounds test_the_bound_is_that_of_a_conic_solver
        test_theorem_1_holds_where_moments_may_be_off test_units_of_the_features_make_no_difference
    """,
    "tests/estimators/test_sparse_minimax_aims.py": """
        test_costs_lower_the_cost_in_the_worst_case test_each_basis_lowers_the_cost
        test_held_out_bases_are_those_of_least_cost test_sparse_rows_are_never_dense_all_at_once
        test_sparse_rows_far_from_zero_lose_no_digits test_sparse_rows_give_the_model_of_dense_ones
        test_the_unit_of_costs_makes_no_difference test_weights_are_repetitions
    """,
    "tests/estimators/test_selection.py": """
        test_a_path_with_warm_starts_is_the_path_without test_a_search_takes_the_penalty
        test_features_are_selected test_three_classes_of_many_features
    """,
    "tests/estimators/test_sparse_minimax.py": """
        test_a_step_along_the_gradient_makes_the_bound_larger
        test_arrays_of_other_libraries_give_the_numbers_of_numpy test_data_are_not_changed
        test_folds_that_end_early_keep_their_last_scores test_held_out_path_of_given_folds
        test_it_does_not_always_stop_at_the_end test_it_is_reproducible
        test_it_stops_where_the_held_out_bound_is_largest test_layouts_in_memory
        test_more_candidates_reach_a_bound_sooner test_more_classes_by_wrappers
        test_noise_features_weigh_less_than_those_of_twonorm test_nothing_is_left_of_an_earlier_fit
        test_one_unit_for_all_features_makes_no_difference_to_a_width
        test_the_held_out_bound_flatters_less
        test_units_of_the_features_make_no_difference_to_feature_weights
        test_where_zero_is_makes_no_difference_to_gaussians test_without_stopping_all_bases_are_used
    """,
    "tests/estimators/test_tight_bound.py": """
        test_a_hundred_bounds_are_a_hundred_weighted_logistic_regressions
        test_a_warm_start_is_one_of_the_first_bound test_costs_of_undecided_may_depend_on_the_class
        test_errors_get_fewer_on_a_stream test_many_coefficients_go_without_hessians
        test_not_deciding_for_nothing_is_always_undecided test_the_expected_error_never_rises
    """,
    "tests/estimators/test_tight_bound_classifier.py": """
        test_on_real_data
    """,
    "tests/estimators/test_tight_bound_limits.py": """
        test_curves_go_from_nobody_to_everybody test_decisions_keep_the_limit_however_rows_are_given
        test_every_step_keeps_the_limit_and_gains test_fresh_rows_are_cut_no_less_carefully
        test_limits_are_sums_over_rows_of_their_own_class test_new_rows_keep_the_limit_on_average
        test_the_cut_is_the_best_of_all test_the_expected_rate_of_a_fit_with_held_out_rows
        test_the_scale_of_weights_does_not_matter test_the_threshold_is_that_of_probabilities
    """,
    "tests/estimators/test_moved_points.py": """
        test_moving_lowers_the_criterion_step_by_step test_the_slope_is_that_of_differences
    """,
    "tests/estimators/test_tuned_threshold.py": """
        test_costs_of_rows_decide_as_ever test_decisions_are_those_of_the_moved_threshold
        test_it_survives_copies_refits_and_repeated_folds test_names_of_classes_and_balanced_costs
        test_probabilities_do_not_change test_the_gate_compares_moved_thresholds
    """,
    "tests/estimators/test_centres.py": """
        test_features_are_made_once_a_fold test_many_rows_in_blocks test_many_rows_on_a_device
        test_zones_on_a_device_from_rounded_kinks test_what_centres_leave_is_estimated_without_bias
    """,
    "tests/estimators/test_truncated_cv.py": """
        test_a_kernel_may_come_after_another test_a_precomputed_kernel
        test_a_start_that_leads_nowhere_is_given_up
        test_an_interruption_leaves_the_estimator_as_it_was
        test_callbacks_hear_of_folds_and_may_stop test_callbacks_may_stop_on_the_way_to_the_gate
        test_every_fit_and_score_is_that_of_a_plain_fit
        test_fits_with_a_start_reach_the_same_optimum test_folds_may_be_masks
        test_kernel_values_are_shared test_labels_of_any_kind
        test_pairs_without_a_score_are_not_chosen test_several_jobs_change_nothing test_sparse_data
        test_starts_save_iterations test_the_best_mean_is_chosen test_the_refit_is_a_plain_fit
        test_the_score_is_weighted test_ties_go_to_the_smaller_c_then_to_the_narrower_zone
        test_weights_are_repetitions test_weights_can_be_routed
        test_without_a_refit_there_is_a_choice_but_no_model
    """,
    "tests/laws/test_callbacks.py": """
        test_blocks_tell_how_far_they_are
    """,
    "tests/laws/test_input_kinds.py": """
        test_names_of_the_features test_sparse_data_for_the_other_solvers
    """,
    "tests/laws/test_kernel_gap.py": """
        test_the_optimum_of_many_classes_lies_within_the_gap
    """,
    "tests/laws/test_kernel_optimum.py": """
        test_objective_is_the_optimum_of_many_classes test_solvers_agree
        test_the_table_takes_both_ways
    """,
    "tests/laws/test_precision.py": """
        test_arrays_of_other_libraries
    """,
    "tests/metrics/test_metrics.py": """
        test_balanced_costs_are_the_balanced_error_rate test_calibration_error_of_uniform_bins
        test_example_costs_generalise_the_matrix test_expected_cost_is_the_brute_force_mean
        test_expected_cost_splits_into_risk_and_coverage test_zone_log_loss_is_criterion_three
    """,
    "tests/numerics/test_compiled_rows.py": """
        test_a_policy_of_two_actions
    """,
    "tests/numerics/test_designs.py": """
        test_sparse_data_are_never_copied_whole
    """,
    "tests/numerics/test_losses.py": """
        test_balance_by_reference test_balance_of_many_classes test_balance_of_two_classes
    """,
    "tests/docs/test_messages_link.py": """
        test_a_table_whose_rejection_never_pays_has_a_note
        test_rejection_pays_where_some_probabilities_say_so
    """,
    "tests/packaging/test_publishing.py": """
        test_a_source_distribution_is_built
    """,
    "tests/packaging/test_packaging.py": """
        test_modules_that_need_no_extra_are_attributes test_the_command_runs_as_a_module
    """,
    "tests/reporting/test_report.py": """
        test_facts_of_every_family_in_every_wrapper test_facts_through_a_frozen_pipeline
        test_threshold_of_decisions_that_costs_do_not_explain
    """,
    "tests/laws/test_selection_optimum.py": """
        test_the_objective_is_that_of_cvxpy
    """,
    "tests/solvers/test_device_kernel.py": """
        test_an_accuracy_out_of_reach test_many_classes_where_few_rows_are_held test_strict_arrays
    """,
    "tests/solvers/test_greedy.py": """
        test_exact_selection_is_the_basic_algorithm
    """,
    "tests/solvers/test_minimax_plane.py": """
        test_never_worse_than_brute_force
    """,
    "tests/solvers/test_selection_solver.py": """
        test_no_column_that_is_used_is_ever_left_out test_passes_over_columns_end_where_hessians_do
    """,
    "tests/solvers/test_policy.py": """
        test_the_bound_lies_above_the_cost_and_touches_it
    """,
    "tests/solvers/test_sparse_ascent.py": """
        test_rows_of_any_kind test_texts_by_the_estimator_and_by_smoothed_steps
    """,
    "tests/sources/test_blocks.py": """
        test_tasks_are_given_pieces_of_blocks
    """,
}
