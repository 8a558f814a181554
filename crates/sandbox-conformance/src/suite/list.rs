//! The list of all checks, by group: what `suite` expands.
//!
//! A line names a check, what it needs, and the clause of the contract that it is about.

/// Hands the list to another macro: `with_checks! { [macro] [argument] }`.
#[doc(hidden)]
#[macro_export]
macro_rules! with_checks {
    ([$($macro:tt)+] [$($argument:tt)*]) => {
        $($macro)+! { [$($argument)*]
            file::read::a_file_is_read_byte_for_byte [] "read: the bytes as they are";
            file::read::a_whole_read_tells_size_lines_digest_and_mode []
                "read: facts about the whole file";
            file::read::a_range_of_bytes_is_that_range [] "read: Range::Bytes";
            file::read::a_range_of_lines_counts_from_one_and_keeps_line_ends []
                "read: Range::Lines";
            file::read::a_range_past_the_end_is_empty_and_no_error []
                "read: less at the end of the file";
            file::read::a_file_over_the_cap_is_refused_with_its_size [] "read: max";
            file::read::a_small_part_of_a_large_file_is_read []
                "read: max is of the part, not of the file";
            file::read::encoding_byte_order_mark_and_line_ends_are_told [] "read: TextFacts";
            file::read::a_missing_file_is_not_found [] "read: NotFound";
            file::read::a_refusal_names_the_verb_and_what_it_was_about []
                "errors: verb, subject, kind";
            file::read::a_directory_is_not_read_as_a_file [] "read: NotAFile";
            file::read::a_fifo_never_blocks_a_read [] "read: a FIFO or a device never blocks";
            file::read::a_link_inside_the_workspace_is_followed []
                "read: links inside a root are followed";
            file::read::a_link_to_nothing_is_not_found [] "read: NotFound";
            file::read::a_loop_of_links_ends_in_an_error [] "read: a verdict without effect";
            file::read::many_files_come_back_in_the_order_asked [ReadMany] "read_many: in order";
            file::read::one_missing_file_fails_no_other [ReadMany] "read_many: an answer per item";
            file::read::the_total_cap_refuses_only_what_would_exceed_it [ReadMany]
                "read_many: total_max";

            file::put::a_put_makes_missing_parents [] "write: missing parents are created";
            file::put::a_put_receipt_says_what_was_there_and_what_is [] "write: WriteReceipt";
            file::put::a_put_replaces_all_of_a_longer_file [] "write: all of its content";
            file::put::an_empty_file_can_be_put [] "write: content of 0 bytes";
            file::put::a_large_file_arrives_intact [] "write: content up to the limit";
            file::put::a_put_keeps_the_mode_of_an_existing_file []
                "write: an existing file keeps its mode";
            file::put::a_put_sets_the_mode_it_is_given [] "write: Put::mode";
            file::put::set_id_bits_are_refused [] "write: modes are 0 to 0o777";
            file::put::a_put_follows_a_link_inside_the_workspace []
                "write: a link is followed inside the roots";
            file::put::a_put_onto_a_directory_is_refused [] "write: NotAFile";
            file::put::readers_see_the_old_content_or_the_new [] "write: never a mixture";
            file::put::a_change_that_fails_stops_no_later_one [] "write: an answer per change";
            file::put::changes_are_made_in_order [] "write: in order";
            file::put::odd_names_are_only_names [] "every file verb: a name is data";
            file::put::of_many_puts_that_must_be_first_one_succeeds [Precondition]
                "write: Precondition::Absent is decided atomically";
            file::put::a_put_that_must_be_first_finds_every_kind_of_entry [Precondition]
                "write: Precondition::Absent";
            file::put::a_put_for_another_digest_is_a_conflict_that_names_it [Precondition]
                "write: Precondition::Digest";
            file::put::a_put_for_the_right_digest_replaces [Precondition]
                "write: Precondition::Digest";
            file::put::of_many_puts_for_one_digest_one_succeeds [Precondition]
                "write: no update is lost";
            file::put::a_durable_put_is_a_put [Durable] "write: Durability::Durable";
            file::put::nothing_is_left_beside_what_was_put [] "write: nothing else changes";
            file::put::a_put_changes_the_time_of_a_file [] "write: the time of the last change";

            file::edit::an_edit_replaces_a_text_that_occurs_once [Edit]
                "write: Edit and its receipt";
            file::edit::an_edit_can_remove_text [Edit] "write: Edit with an empty replacement";
            file::edit::a_text_that_occurs_twice_is_a_conflict_that_counts [Edit]
                "write: Occurrences::One";
            file::edit::a_text_that_does_not_occur_is_not_found [Edit] "write: Occurrences::One";
            file::edit::an_edit_of_a_missing_file_is_not_found [Edit] "write: NotFound";
            file::edit::all_occurrences_are_replaced_when_asked [Edit] "write: Occurrences::All";
            file::edit::each_replacement_works_on_the_result_of_the_one_before [Edit]
                "write: replacements in order";
            file::edit::an_edit_that_fails_half_way_changes_nothing [Edit]
                "write: an edit is atomic";
            file::edit::an_edit_keeps_the_line_ends_of_a_crlf_file [Edit]
                "write: LF matches and becomes CR LF";
            file::edit::an_edit_leaves_every_other_byte_alone [Edit]
                "write: bytes outside stay as they are";
            file::edit::an_edit_keeps_the_byte_order_mark [Edit] "write: the byte order mark stays";
            file::edit::an_edit_keeps_the_mode [Edit] "write: the mode stays";
            file::edit::edits_at_once_lose_nothing [Edit] "write: no update is lost";
            file::edit::an_edit_for_another_digest_is_a_conflict [Edit, Precondition]
                "write: Precondition::Digest of an edit";
            file::edit::an_edit_that_finds_nothing_to_look_for_is_refused [Edit]
                "write: the text to find is not empty";
            file::edit::an_edit_of_a_directory_is_refused [Edit] "write: NotAFile";
            file::edit::a_large_edit_is_counted_exactly [Edit] "write: WriteReceipt::replaced";

            file::directory::a_directory_is_made_with_its_parents [MakeDirectory]
                "write: MakeDirectory";
            file::directory::a_directory_that_is_there_is_no_error [MakeDirectory]
                "write: MakeDirectory of what is there";
            file::directory::a_rename_moves_an_entry [Rename] "write: Rename";
            file::directory::a_rename_moves_a_link_and_not_its_target [Rename]
                "write: a link is renamed itself";
            file::directory::a_rename_keeps_what_is_there [Rename] "write: Existing::Keep";
            file::directory::a_rename_replaces_when_told [Rename] "write: Existing::Replace";
            file::directory::a_rename_of_nothing_is_not_found [Rename] "write: NotFound";
            file::directory::a_removed_file_is_gone [] "remove: an entry";
            file::directory::a_removed_tree_is_gone_and_counted []
                "remove: Recursion::Yes and its receipt";
            file::directory::removing_nothing_is_no_error []
                "remove: one that is not there is no error";
            file::directory::an_empty_directory_is_removed_without_recursion []
                "remove: Recursion::No";
            file::directory::a_directory_with_entries_stays_without_recursion [] "remove: NotEmpty";
            file::directory::a_removed_link_leaves_its_target [] "remove: a link is removed itself";
            file::directory::a_root_is_never_removed [] "remove: InvalidArgument for a root";

            file::entry::absence_is_a_value [] "stat_many: absence is a value";
            file::entry::many_entries_are_described_in_the_order_asked [] "stat_many: in order";
            file::entry::an_entry_is_described_with_kind_size_and_mode [] "stat_many: Stat";
            file::entry::an_entry_is_described_with_its_times [] "stat_many: times";
            file::entry::a_link_is_described_itself [] "stat_many: links are described themselves";
            file::entry::an_entry_is_found_through_a_link_to_its_directory []
                "stat_many: links on the way are followed";
            file::entry::a_mode_is_set [SetMode] "write: SetMode";
            file::entry::a_set_id_mode_is_refused [SetMode] "write: modes are 0 to 0o777";
            file::entry::a_link_has_the_text_it_was_given [Link] "write: Link";
            file::entry::a_link_onto_an_entry_is_refused [Link] "write: AlreadyExists";

            containment::a_read_through_a_link_never_leaves_the_roots [Outside] "read: OutsideRoot";
            containment::a_put_through_a_link_never_leaves_the_roots [Outside] "write: OutsideRoot";
            containment::an_edit_through_a_link_never_leaves_the_roots [Outside, Edit]
                "write: OutsideRoot";
            containment::a_directory_is_never_made_outside_the_roots [Outside, MakeDirectory]
                "write: OutsideRoot";
            containment::a_mode_is_never_set_outside_the_roots [Outside, SetMode]
                "write: OutsideRoot";
            containment::a_link_is_never_made_outside_the_roots [Outside, Link]
                "write: OutsideRoot";
            containment::a_rename_never_crosses_the_roots [Outside, Rename] "write: OutsideRoot";
            containment::a_remove_through_a_link_never_leaves_the_roots [Outside]
                "remove: OutsideRoot";
            containment::a_removed_tree_takes_links_out_and_not_what_they_name [Outside]
                "remove: links are not followed";
            containment::a_stat_through_a_link_never_leaves_the_roots [Outside]
                "stat_many: OutsideRoot";
            containment::an_absolute_path_outside_is_not_read [Outside]
                "read: absolute paths are the sandbox's";
            containment::a_link_that_changes_meanwhile_leads_nowhere_else [Outside]
                "read: no race leads out";
            containment::an_absolute_path_into_the_workspace_is_followed []
                "paths: absolute ones in the sandbox's view";
            containment::a_link_with_an_absolute_text_inside_is_followed []
                "paths: links resolve into any root";

            search::glob::entries_are_found_by_name_at_any_level [Glob] "glob: Scope::include";
            search::glob::a_star_does_not_match_a_slash [Glob]
                "glob: Scope::include spells the whole path";
            search::glob::directories_are_found_too [Glob] "glob: directories are entries";
            search::glob::a_link_is_found_and_not_followed [Glob] "glob: links are entries";
            search::glob::ignored_names_are_left_out_outside_of_a_repository [Glob]
                "glob: IgnoreRules::Git";
            search::glob::a_nearer_ignore_file_overrides_one_further_out [Glob]
                "glob: nested .gitignore, negation";
            search::glob::a_broad_glob_does_not_bring_back_what_is_ignored [Glob]
                "glob: globs never bring back what is ignored";
            search::glob::excludes_of_the_repository_hold [Glob] "glob: .git/info/exclude";
            search::glob::without_rules_everything_is_found [Glob] "glob: IgnoreRules::Off";
            search::glob::hidden_names_are_left_out_when_asked [Glob] "glob: Hidden::Exclude";
            search::glob::what_is_excluded_is_not_entered [Glob] "glob: Scope::exclude";
            search::glob::a_depth_counts_from_the_root_of_the_scope [Glob] "glob: Scope::max_depth";
            search::glob::paths_are_sorted_by_their_bytes_when_asked [Glob] "glob: Sort::Path";
            search::glob::the_newest_come_first_when_asked [Glob] "glob: Sort::Modified";
            search::glob::a_sorted_answer_that_is_cut_is_the_first_in_order [Glob]
                "glob: limit of a sorted answer";
            search::glob::an_answer_that_is_cut_says_so [Glob] "glob: Completeness";
            search::glob::entries_are_described_when_asked [Glob] "glob: WithStat::Yes";
            search::glob::paths_are_those_of_the_sandbox_wherever_it_began [Glob]
                "glob: Scope::root";
            search::glob::odd_names_are_found_as_they_are [Glob] "glob: names are bytes";
            search::glob::a_glob_that_cannot_be_read_is_refused [Glob] "glob: InvalidArgument";
            search::glob::a_search_of_a_missing_directory_is_not_found [Glob] "glob: NotFound";
            search::glob::a_file_is_no_directory_to_list [Glob] "glob: NotADirectory";
            search::glob::a_listing_never_leaves_the_roots [Outside, Glob] "glob: OutsideRoot";
            search::grep::text_is_found_in_every_file [Grep] "grep: matches";
            search::grep::lines_are_numbered_from_one [Grep] "grep: MatchedLine::number";
            search::grep::a_line_says_where_it_starts_in_bytes [Grep] "grep: MatchedLine::offset";
            search::grep::matches_are_ranges_of_bytes_in_their_line [Grep]
                "grep: MatchedLine::matches";
            search::grep::literal_text_has_no_meaning [Grep] "grep: PatternSyntax::Literal";
            search::grep::letters_compare_as_asked [Grep] "grep: Case::Insensitive";
            search::grep::lines_around_a_match_come_with_it [Grep] "grep: before and after";
            search::grep::matches_of_a_file_are_limited_when_asked [Grep] "grep: max_per_file";
            search::grep::a_search_that_is_cut_says_so [Grep] "grep: Completeness";
            search::grep::a_limit_is_of_matches_in_total [Grep] "grep: limit";
            search::grep::a_long_line_is_cut_and_said_to_be [Grep] "grep: max_line_bytes";
            search::grep::what_looks_binary_is_said_to_match [Grep] "grep: FileMatches::binary";
            search::grep::a_match_may_span_lines_when_asked [Grep] "grep: Lines::Multi";
            search::grep::a_pattern_that_cannot_be_read_is_refused [Grep] "grep: InvalidArgument";
            search::grep::ignored_files_are_not_searched [Grep] "grep: IgnoreRules::Git";
            search::grep::only_files_that_a_glob_takes_are_searched [Grep] "grep: Scope::include";
            search::grep::a_line_comes_without_what_ends_it [Grep] "grep: MatchedLine::text";
            search::grep::a_fifo_never_blocks_a_search [Grep]
                "grep: a FIFO or a device never blocks";
            search::grep::a_file_can_be_searched_by_its_name [Grep] "grep: a file as the root";
            search::grep::a_search_never_follows_a_link_out [Outside, Grep]
                "grep: links are not followed";
            search::grep::a_search_says_how_many_files_it_looked_at [Grep] "grep: searched";

            process::start::arguments_arrive_verbatim [] "exec: argv only";
            process::start::ten_thousand_arguments_arrive [] "exec: argv up to the kernel's limit";
            process::start::an_argument_beyond_the_limit_is_too_large [] "exec: TooLarge";
            process::start::variables_are_set_and_removed_in_order []
                "exec: changes of the environment, in order";
            process::start::a_call_leaves_nothing_for_the_next [] "exec: each call stands alone";
            process::start::a_process_starts_in_the_workspace_root [] "exec: cwd by default";
            process::start::a_process_starts_where_it_is_told [] "exec: cwd";
            process::start::a_missing_directory_is_said_before_anything_starts []
                "exec: NotFound for the directory";
            process::start::a_process_does_not_start_in_a_file [] "exec: NotADirectory";
            process::start::a_process_does_not_start_outside [Outside] "exec: OutsideRoot";
            process::start::a_missing_program_is_not_found [] "exec: NotFound for the program";
            process::start::what_is_not_executable_is_not_started []
                "exec: PermissionDenied for the program";
            process::start::a_directory_is_not_started [] "exec: NotAFile for the program";
            process::start::a_text_without_an_interpreter_is_not_started []
                "exec: SpawnFailed, and no shell in its place";
            process::start::a_program_is_looked_up_in_the_path_it_will_have []
                "exec: PATH of the process";
            process::start::an_empty_command_is_refused []
                "exec: InvalidArgument for an empty argv";
            process::start::a_nul_in_an_argument_is_refused [] "exec: InvalidArgument for a NUL";
            process::start::a_variable_that_cannot_be_is_refused []
                "exec: InvalidArgument for a variable";

            process::status::every_exit_code_comes_back [] "outcome: Status::Exited";
            process::status::a_signal_is_not_an_exit_code [] "outcome: Status::Signalled";
            process::status::a_process_starts_with_no_signal_ignored []
                "exec: signals at their defaults";
            process::status::duration_and_use_are_told [] "outcome: duration and usage";
            process::status::runs_at_once_do_not_mix [] "exec: calls may be concurrent";
            process::status::a_run_has_the_id_it_was_given [] "exec: ids are the caller's";
            process::status::a_call_ends_at_its_deadline [] "every verb: DeadlineExceeded";

            process::stdin::no_input_ends_at_once [] "exec: Stdin::Null";
            process::stdin::a_spawned_process_has_no_input_unless_asked [Spawn]
                "spawn: SpawnStdin::Null";
            process::stdin::input_arrives_byte_for_byte [Stdin] "exec: Stdin::Bytes";
            process::stdin::an_input_stream_arrives_in_order [Stdin] "exec: Stdin::Stream";
            process::stdin::input_that_nobody_reads_is_no_error [Stdin]
                "exec: a command may stop reading";
            process::stdin::an_input_that_never_ends_holds_nothing_up [Stdin]
                "exec: a call ends when its leader ends";

            process::output::both_streams_come_back_apart [] "outcome: two streams";
            process::output::binary_output_is_not_touched [] "outcome: bytes as they are";
            process::output::long_output_keeps_head_and_tail_and_counts_the_rest []
                "outcome: head, tail and dropped";
            process::output::output_that_fits_is_not_cut [] "outcome: a stream that fits is whole";
            process::output::a_cut_never_splits_a_character []
                "outcome: cut on character boundaries";
            process::output::much_output_on_both_streams_stalls_nothing []
                "exec: pipes are always drained";
            process::output::output_before_a_timeout_is_returned []
                "outcome: on any status what was output so far";
            process::output::bytes_that_no_log_keeps_are_counted [] "outcome: unlogged";
            process::output::output_beyond_its_limit_ends_the_tree_when_asked []
                "exec: BeyondLog::Kill";

            process::live::output_arrives_while_the_process_runs [] "exec: Delivery::Live";
            process::live::a_slow_reader_loses_nothing [] "exec: every byte reaches a live reader";
            process::live::one_stream_never_waits_for_the_other []
                "exec: the parts of an execution are independent";
            process::live::a_stream_that_nobody_wants_holds_nothing_up []
                "exec: a dropped stream is discarded";
            process::live::the_outcome_of_a_live_run_says_the_same []
                "outcome: whatever the delivery";
            process::live::a_run_that_cannot_start_says_so_when_live_too []
                "exec: failures to start";

            process::tree::a_held_pipe_does_not_hold_the_answer []
                "exec: a call ends when its leader ends";
            process::tree::what_a_child_still_says_is_heard [] "exec: a short drain";
            process::tree::a_daemon_does_not_outlive_its_run [] "exec: Descendants::Kill";
            process::tree::what_is_left_on_request_is_named_and_runs_on []
                "exec: Descendants::Leave";
            process::tree::a_timeout_ends_the_whole_tree [] "exec: timeout";
            process::tree::a_cancel_ends_the_whole_tree [] "exec: cancel";
            process::tree::an_outcome_that_nobody_waits_for_is_a_cancel []
                "exec: a dropped outcome";
            process::tree::a_run_can_be_stopped_by_its_id [Spawn] "proc_stop: of an exec";
            process::tree::a_timeout_is_polite_first [] "exec: grace";
            process::tree::a_call_cancelled_before_it_begins_starts_nothing []
                "every verb: Cancelled";

            process::log::a_spawned_process_runs_on [Spawn] "spawn: a handle and a pid";
            process::log::a_log_is_read_by_absolute_offset [Spawn] "proc_read: from and max";
            process::log::the_two_logs_are_read_apart [Spawn] "proc_read: stream";
            process::log::what_an_outcome_leaves_out_can_be_read_back [Spawn]
                "proc_read: of an exec";
            process::log::a_read_waits_until_there_is_something [Spawn] "proc_read: wait";
            process::log::a_read_that_waits_ends_with_the_process [Spawn]
                "proc_read: wait ends with the process";
            process::log::a_read_that_waited_long_enough_comes_back_empty [Spawn]
                "proc_read: wait ends in time";
            process::log::the_exit_is_known_at_the_first_read [Spawn] "proc_read: status";
            process::log::a_process_that_outgrows_its_log_waits_when_asked [Spawn]
                "spawn: BeyondLog::Block";
            process::log::a_repeated_spawn_is_the_same_process [Spawn] "spawn: repeating is safe";
            process::log::another_spawn_of_the_same_id_is_a_conflict [Spawn] "spawn: Conflict";
            process::log::a_process_that_nobody_started_is_not_found [Spawn]
                "proc_*: ProcessNotFound";
            process::log::what_cannot_be_spawned_is_said_at_once [Spawn] "spawn: errors as of exec";
            process::log::a_spawned_process_ends_at_its_timeout [Spawn] "spawn: timeout";
            process::log::one_process_too_many_is_busy [Spawn] "spawn: Busy";

            process::input::input_can_be_written_piece_by_piece [Spawn]
                "proc_stdin: pieces, and the end";
            process::input::repeated_input_is_written_once [Spawn] "proc_stdin: repeating is safe";
            process::input::a_gap_in_the_input_is_a_conflict_that_names_the_offset [Spawn]
                "proc_stdin: Conflict";
            process::input::closed_input_stays_closed [Spawn] "proc_stdin: StdinClosed";
            process::input::a_process_without_input_cannot_be_written_to [Spawn]
                "proc_stdin: StdinClosed";
            process::input::unread_input_holds_up_nothing_else [Spawn]
                "proc_stdin: other verbs go on";

            process::stop::a_signal_reaches_a_process_that_may_live_on [Spawn]
                "proc_stop: Stop::Signal";
            process::stop::a_signal_reaches_the_whole_tree [Spawn]
                "proc_stop: Stop::Signal to every process";
            process::stop::a_signal_that_does_not_exist_is_refused [Spawn]
                "proc_stop: InvalidArgument";
            process::stop::a_graceful_stop_lets_a_process_finish [Spawn]
                "proc_stop: Stop::Graceful";
            process::stop::a_graceful_stop_ends_what_does_not_listen [Spawn] "proc_stop: grace";
            process::stop::nothing_is_left_when_a_stop_is_answered [Spawn] "proc_stop: Stop::Kill";
            process::stop::stopping_what_has_ended_is_no_error [Spawn]
                "proc_stop: of what has ended";

            process::terminal::a_terminal_has_the_size_it_was_given [Pty] "exec: pty";
            process::terminal::a_terminal_is_all_three_streams_and_has_a_name [Pty]
                "exec: pty is one stream";
            process::terminal::without_a_terminal_there_is_none [] "exec: three pipes";
            process::terminal::a_terminal_changes_its_size [Pty, Spawn] "proc_stdin: resize";
            process::terminal::what_is_typed_reaches_the_process [Pty, Spawn]
                "proc_stdin: of a terminal";
            process::terminal::control_c_interrupts [Pty, Spawn] "spawn: a controlling terminal";
            process::terminal::the_end_of_a_terminal_loses_nothing [Pty]
                "exec: pty output is whole";

            fingerprint::digest::an_unchanged_tree_has_one_fingerprint [Fingerprint]
                "fingerprint: metadata says whether the tree is as it was";
            fingerprint::digest::a_changed_file_is_another_tree [Fingerprint]
                "fingerprint: the digest covers contents";
            fingerprint::digest::a_new_entry_is_another_tree [Fingerprint]
                "fingerprint: the digest covers names";
            fingerprint::digest::two_copies_have_one_content_fingerprint [Fingerprint]
                "fingerprint: content is equal for two copies";
            fingerprint::digest::a_touch_is_no_change_of_content [Fingerprint]
                "fingerprint: content covers no times";
            fingerprint::digest::entries_are_counted [Fingerprint] "fingerprint: entries";
            fingerprint::digest::a_link_out_is_only_its_text [Outside, Fingerprint]
                "fingerprint: links are not followed";
            fingerprint::digest::a_fifo_blocks_no_fingerprint [Fingerprint]
                "fingerprint: a FIFO or a device never blocks";
            fingerprint::digest::a_tree_beyond_its_limit_is_incomplete [Fingerprint]
                "fingerprint: limit";
            fingerprint::digest::a_fingerprint_of_nothing_is_not_found [Fingerprint]
                "fingerprint: NotFound";
            fingerprint::digest::a_fingerprint_never_leaves_the_roots [Outside, Fingerprint]
                "fingerprint: OutsideRoot";

            fingerprint::changes::a_new_entry_is_told_as_created [Fingerprint]
                "changes: created";
            fingerprint::changes::a_file_that_became_empty_is_told_as_modified [Fingerprint]
                "changes: modified";
            fingerprint::changes::a_removed_entry_is_told [Fingerprint] "changes: removed";
            fingerprint::changes::a_rewrite_that_restores_the_time_is_told [Fingerprint]
                "changes: modified even if size and time are as they were";
            fingerprint::changes::a_link_that_leads_elsewhere_is_told [Fingerprint]
                "changes: links are their text";
            fingerprint::changes::a_mode_that_changed_is_told [Fingerprint] "changes: modes";
            fingerprint::changes::a_directory_is_not_modified_by_what_is_in_it [Fingerprint]
                "changes: directories by name and mode";
            fingerprint::changes::a_touch_is_not_told_by_content [Fingerprint]
                "changes: what the depth covers";
            fingerprint::changes::paths_of_changes_lead_to_them [Fingerprint]
                "changes: paths that other verbs take";
            fingerprint::changes::a_base_that_is_not_known_is_said_to_be_that [Fingerprint]
                "bases: Uncompared::NotKnown";
            fingerprint::changes::a_base_of_another_scope_is_said_to_be_that [Fingerprint]
                "bases: Uncompared::OtherScope";
            fingerprint::changes::nothing_beyond_a_limit_is_called_new_or_gone [Fingerprint]
                "changes: what could not be seen is in no list";
            fingerprint::changes::many_changes_are_told_in_part_and_said_to_be [Fingerprint]
                "changes: complete";

            fingerprint::scope::what_is_ignored_does_not_count [Fingerprint]
                "scope: IgnoreRules::Git";
            fingerprint::scope::what_is_only_ignored_by_now_is_not_gone [Fingerprint]
                "changes: what is ignored by now is not gone";
            fingerprint::scope::hidden_names_count_only_when_wanted [Fingerprint]
                "scope: Hidden::Exclude";
            fingerprint::scope::what_lies_too_deep_does_not_count [Fingerprint]
                "scope: max_depth";
            fingerprint::scope::what_is_excluded_does_not_count [Fingerprint] "scope: exclude";
            fingerprint::scope::a_fingerprint_of_a_malformed_glob_is_refused [Fingerprint]
                "fingerprint: InvalidArgument for a glob";

            fingerprint::track::a_run_tells_what_it_created [Track] "track: created";
            fingerprint::track::a_run_tells_what_it_modified [Track] "track: modified";
            fingerprint::track::a_run_tells_what_it_removed [Track] "track: removed";
            fingerprint::track::a_run_that_restores_the_time_is_found_out [Track]
                "track: sees past size and time";
            fingerprint::track::a_run_that_changes_nothing_tells_nothing [Track]
                "track: no changes";
            fingerprint::track::changes_are_told_only_when_asked_for [] "track: only when asked for";
            fingerprint::track::a_run_that_timed_out_tells_its_changes [Track]
                "track: whatever the status";
            fingerprint::track::a_cancelled_run_tells_its_changes [Track]
                "track: whatever the status";
            fingerprint::track::a_live_run_tells_its_changes [Track]
                "track: whatever the delivery";
            fingerprint::track::a_run_is_not_failed_by_the_limit_of_tracking [Track]
                "track: never fails a run";
            fingerprint::track::a_run_with_many_changes_tells_a_part [Track]
                "track: complete";
            fingerprint::track::only_the_scope_of_tracking_counts [Track] "track: scope";
            fingerprint::track::a_tree_that_a_run_makes_counts_whole [Track]
                "track: a tree that is not there yet";
            fingerprint::track::a_scope_that_is_none_is_refused_before_the_run [Track]
                "track: InvalidArgument";

            transfer::push::a_pushed_tree_is_all_there [PushTree] "push_tree: what is accepted";
            transfer::push::pushed_permission_bits_arrive [PushTree] "push_tree: what is accepted";
            transfer::push::set_id_bits_are_not_pushed [PushTree] "push_tree: what is accepted";
            transfer::push::pushed_times_arrive [PushTree] "push_tree: what is accepted";
            transfer::push::pushed_links_keep_their_texts [PushTree] "push_tree: what is accepted";
            transfer::push::an_empty_directory_is_pushed [PushTree] "push_tree: what is accepted";
            transfer::push::odd_names_are_pushed [PushTree] "push_tree: what is accepted";
            transfer::push::long_names_and_texts_are_pushed [PushTree]
                "push_tree: what is accepted";
            transfer::push::a_compressed_tree_is_pushed [PushTree] "push_tree: what is accepted";
            transfer::push::a_push_makes_missing_parents [PushTree]
                "push_tree: missing parents are created";
            transfer::push::a_push_into_an_empty_directory_keeps_its_bits [PushTree]
                "push_tree: a directory that is there";
            transfer::push::a_push_onto_entries_is_refused [PushTree] "push_tree: NotEmpty";
            transfer::push::a_push_onto_a_file_is_refused [PushTree] "push_tree: NotADirectory";
            transfer::push::a_push_says_what_it_did [PushTree] "push_tree: PushReceipt";
            transfer::push::nothing_is_left_beside_a_pushed_tree [PushTree] "push_tree: no residue";
            transfer::refusal::a_name_that_leaves_the_tree_is_refused [PushTree]
                "push_tree: what is refused";
            transfer::refusal::an_absolute_name_is_refused [PushTree] "push_tree: what is refused";
            transfer::refusal::an_entry_beneath_a_link_is_refused [Outside, PushTree]
                "push_tree: what is refused";
            transfer::refusal::a_second_entry_of_a_name_is_refused [PushTree]
                "push_tree: what is refused";
            transfer::refusal::a_hard_link_is_refused [PushTree] "push_tree: what is refused";
            transfer::refusal::a_device_or_a_fifo_is_refused [PushTree]
                "push_tree: what is refused";
            transfer::refusal::an_unknown_type_is_refused [PushTree] "push_tree: what is refused";
            transfer::refusal::an_extension_that_changes_a_size_is_refused [PushTree]
                "push_tree: what is refused";
            transfer::refusal::a_record_for_all_entries_is_refused [PushTree]
                "push_tree: what is refused";
            transfer::refusal::a_cut_archive_is_refused [PushTree] "push_tree: what is refused";
            transfer::refusal::a_damaged_header_is_refused [PushTree] "push_tree: what is refused";
            transfer::refusal::what_follows_the_end_is_refused [PushTree]
                "push_tree: what is refused";
            transfer::refusal::a_tree_is_never_pushed_outside_the_roots [Outside, PushTree]
                "push_tree: OutsideRoot";
            transfer::delta::a_delta_changes_what_it_has_and_nothing_else [PushTree]
                "push_tree: base";
            transfer::delta::a_delta_removes_what_it_is_told [PushTree] "push_tree: base";
            transfer::delta::the_manifest_of_a_delta_is_the_next_base [PushTree] "push_tree: base";
            transfer::delta::a_base_that_is_not_there_is_a_conflict [PushTree] "push_tree: base";
            transfer::delta::what_the_base_does_not_have_is_not_replaced [PushTree]
                "push_tree: base";
            transfer::delta::a_directory_goes_only_with_all_that_is_in_it [PushTree]
                "push_tree: base";
            transfer::delta::a_removal_that_the_base_does_not_have_is_refused [PushTree]
                "push_tree: base";
            transfer::pull::a_pulled_tree_is_all_there [PullTree] "pull_tree: what is sent";
            transfer::pull::pulled_permission_bits_arrive [PullTree] "pull_tree: what is sent";
            transfer::pull::a_link_is_pulled_as_a_link [PullTree] "pull_tree: what is sent";
            transfer::pull::odd_names_are_pulled [PullTree] "pull_tree: what is sent";
            transfer::pull::what_is_ignored_is_not_pulled [PullTree] "pull_tree: IgnoreRules::Git";
            transfer::pull::without_rules_everything_is_pulled [PullTree]
                "pull_tree: IgnoreRules::Off";
            transfer::pull::globs_choose_what_is_pulled [PullTree] "pull_tree: what is sent";
            transfer::pull::several_scopes_are_one_archive [PullTree] "pull_tree: what is sent";
            transfer::pull::what_no_archive_holds_is_left_out_and_said [PullTree] "pull_tree: Flaw";
            transfer::pull::a_pull_is_compressed_when_asked [PullTree] "pull_tree: what is sent";
            transfer::pull::a_pull_lists_the_tree_with_digests [PullTree] "pull_tree: Manifest";
            transfer::pull::with_a_base_only_what_differs_is_pulled [PullTree] "pull_tree: base";
            transfer::pull::a_pull_says_what_is_gone_since_its_base [PullTree] "pull_tree: removed";
            transfer::pull::a_pull_of_nothing_is_not_found [PullTree] "pull_tree: NotFound";
            transfer::pull::a_pull_of_a_file_is_refused [PullTree] "pull_tree: NotADirectory";
            transfer::pull::a_tree_outside_the_roots_is_never_pulled [Outside, PullTree]
                "pull_tree: OutsideRoot";
            transfer::pull::a_large_file_is_pulled_intact [PullTree] "pull_tree: what is sent";
            transfer::pull::what_is_pulled_can_be_pushed [PushTree, PullTree] "pull_tree: what is sent";

            lifecycle::a_sandbox_says_what_it_is [] "descriptor: facts";
            lifecycle::the_same_spec_is_the_same_sandbox [] "acquire: idempotent";
            lifecycle::another_spec_of_the_same_id_is_a_conflict [] "acquire: Conflict";
            lifecycle::the_environment_of_a_policy_reaches_every_process [] "policy: env";
            lifecycle::a_restriction_that_does_not_hold_refuses [] "policy: require";
            lifecycle::a_limit_that_is_required_is_enforced_or_refused [] "policy: limits";
            lifecycle::a_release_says_whether_there_was_a_sandbox [] "release: idempotent";
            lifecycle::a_release_ends_what_runs [Spawn] "release: ends what runs";
            lifecycle::a_verb_after_a_release_says_so [] "every verb: Lost";
            lifecycle::a_release_closes_the_handle [] "closed: Released";
            lifecycle::a_workspace_that_was_there_is_never_removed [Outside]
                "release: Disposition::Destroy";
            lifecycle::a_sandbox_is_listed_while_it_is_there [List] "list: what there is";
            lifecycle::a_probe_says_whether_a_spec_works [Probe] "probe: reason and remedy";
            lifecycle::two_sandboxes_share_a_workspace_and_no_process [Spawn]
                "acquire: sandboxes are apart";

            undeclared::what_is_not_declared_answers_unsupported [] "capabilities: absence is said";
        }
    };
}
