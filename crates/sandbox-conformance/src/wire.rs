//! Checks of the protocol itself: bytes on a provider's pipes, and what comes back.
//!
//! A client library behaves, so what a provider does about hosts that do not is seen only without
//! one. Each check starts a process of its own and speaks by itself (`peer`); every line that comes
//! back is judged, whatever the check is about (`sound`, `stream`).
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`subject`] | the executable under test, and how it is started and given a workspace |
//! | `framing`, `handshake`, `idempotency`, `streams`, `cancel`, `deadlines`, `life`, `robustness` | the checks, by group |
//! | `absent` | that what is not declared answers `unsupported` |
//!
//! **Invariant:** a check names the clauses of docs/protocol.md that it is about, and each clause exists.
//!
//! Not here: what verbs do, which the behaviour suite holds through the client.

mod absent;
mod cancel;
mod deadlines;
mod framing;
mod handshake;
mod idempotency;
mod life;
mod peer;
mod robustness;
mod sound;
mod stream;
mod streams;
pub mod subject;

use std::fmt;

use sandbox_core::Capability;

use crate::check::{Failure, Passed, VerdictFuture};
pub use subject::Subject;

/// One promise of the protocol, and how to see whether it is kept.
#[derive(Clone, Copy)]
pub struct WireCheck {
    /// What it is about, in one word.
    pub group: &'static str,
    /// The promise as a sentence.
    pub name: &'static str,
    /// Without which the promise is not made.
    pub needs: &'static [Capability],
    /// The clauses of docs/protocol.md that make the promise.
    pub clauses: &'static [&'static str],
    /// Looks.
    run: for<'a> fn(&'a Subject) -> VerdictFuture<'a>,
}

impl fmt::Debug for WireCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireCheck")
            .field("group", &self.group)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl WireCheck {
    /// Looks. In place of a check that needs what is not declared, it is asked for that.
    ///
    /// # Errors
    ///
    /// The promise is not kept, or the provider could not be brought to where it shows.
    pub async fn look(&self, subject: &Subject) -> Result<Passed, Failure> {
        if !self.needs.is_empty() {
            let mut peer = subject.sandbox().await?;
            let declared = subject::capabilities(&peer.hello);
            if let Some(&missing) = self.needs.iter().find(|need| !declared.has(**need)) {
                absent::answers_unsupported(&mut peer, missing).await?;
                return Ok(Passed::NotDeclared(missing));
            }
        }
        (self.run)(subject).await.map(|()| Passed::Kept)
    }
}

macro_rules! wire_checks {
    ($($group:ident :: $name:ident [$($need:ident),*] $($clause:literal)+;)+) => {
        /// Every check of the wire, in the order in which they run.
        pub const WIRE_CHECKS: &[WireCheck] = &[
            $(WireCheck {
                group: stringify!($group),
                name: stringify!($name),
                needs: &[$(Capability::$need),*],
                clauses: &[$($clause),+],
                run: |subject| Box::pin($group::$name(subject)),
            }),+
        ];
    };
}

wire_checks! {
    framing::a_message_may_come_in_pieces [] "2.1";
    framing::several_messages_may_come_at_once [] "2.1" "2.7";
    framing::carriage_returns_and_blank_lines_are_tolerated [] "2.1";
    framing::a_byte_order_mark_at_the_start_is_tolerated [] "2.1";
    framing::absent_parameters_are_empty [] "2.2";
    framing::a_line_of_the_longest_length_is_read [] "2.4" "3.4";
    framing::a_line_that_is_too_long_fails_its_own_call [] "2.4";
    framing::a_result_that_fits_no_line_is_limit_exceeded [] "2.4" "5.2";
    framing::what_is_no_message_is_dropped [] "2.5";
    framing::bytes_that_are_not_utf8_are_dropped [] "2.1" "2.5";
    framing::an_id_that_is_none_is_refused [] "2.3";
    framing::an_id_of_null_counts_as_absent [] "2.3";
    framing::a_batch_is_not_carried_out [] "2.2";
    framing::unknown_members_are_ignored [] "11.1";
    framing::an_unknown_method_is_not_found [] "11.1" "9.4";
    framing::an_unknown_notification_is_ignored [] "11.1";
    framing::an_unknown_choice_is_invalid_and_no_more [] "4.5";

    handshake::the_answer_says_who_it_is_and_what_it_can_do [] "3.1" "3.4";
    handshake::the_highest_common_version_is_chosen [] "3.2";
    handshake::no_common_version_is_said_with_both_sides [] "3.2";
    handshake::what_comes_first_must_be_initialize [] "3.1";
    handshake::a_second_initialize_is_refused [] "3.1";
    handshake::limits_out_of_range_count_as_the_nearest [] "3.4";
    handshake::each_start_is_another_instance [] "3.1";
    handshake::every_mandatory_verb_is_there [] "3.3" "12.1";
    handshake::what_is_not_declared_is_unsupported [] "3.3" "9.2";
    handshake::started_by_hand_it_explains_itself [] "1.3";
    handshake::the_manifest_is_printed_offline [] "1.4";

    idempotency::a_repeated_acquire_is_the_same_sandbox [] "8.1";
    idempotency::an_acquire_with_another_spec_is_a_conflict [] "8.1";
    idempotency::a_repeated_release_is_done_already [] "8.4";
    idempotency::a_release_is_told [] "8.3";
    idempotency::another_life_is_lost_and_untouched [] "4.1" "8.3";
    idempotency::a_new_sandbox_of_the_id_is_a_new_life [] "8.3";
    idempotency::a_requirement_that_cannot_be_met_is_refused [] "8.2";
    idempotency::a_repeated_spawn_is_the_same_process [Spawn] "7.8.1";
    idempotency::input_is_taken_once_by_its_offset [Spawn] "7.8.3";
    idempotency::a_log_is_read_again_by_its_offset [Spawn] "7.8.2";

    streams::live_output_comes_whole_and_before_the_answer [] "5.5" "5.7" "7.7.4";
    streams::a_reader_that_stalls_stops_the_producer_and_nobody_else [] "5.6" "2.8";
    streams::one_window_holds_for_all_streams_together [] "5.6";
    streams::a_stopped_stream_ends_and_the_run_does_not [] "5.8";
    streams::a_file_is_read_onto_a_stream [] "5.2" "5.7";
    streams::a_file_is_written_from_a_stream_under_credit [] "5.2" "5.6" "12.2";
    streams::several_contents_share_a_stream [] "5.3";
    streams::a_gap_in_a_stream_fails_its_call [] "5.5";
    streams::a_stream_that_ends_early_fails_its_call [] "5.7";
    streams::what_is_for_no_stream_is_ignored [] "5.9";
    streams::input_on_a_stream_reaches_the_process [Stdin] "5.6" "7.7.1";

    cancel::a_cancelled_run_is_answered_when_nothing_is_left [] "6.1" "7.7.3";
    cancel::a_cancel_right_behind_its_request_is_answered [] "6.1";
    cancel::a_cancel_too_late_is_ignored [] "6.1";
    cancel::a_cancel_of_nothing_is_ignored [] "6.1";
    cancel::a_cancel_that_is_repeated_is_answered_once [] "6.1";
    cancel::a_cancelled_run_that_waits_for_credit_is_answered [] "6.1" "5.6";

    deadlines::a_deadline_ends_the_run_and_is_said [] "6.2";
    deadlines::a_deadline_that_does_not_pass_changes_nothing [] "6.2" "4.1";

    life::the_end_of_input_ends_it_and_what_it_started [] "10.3";
    life::the_end_of_input_ends_it_while_streams_wait_for_credit [] "10.3";
    life::a_line_that_the_end_cuts_off_is_no_message [] "10.3";
    life::sigterm_means_the_same [] "10.3";
    life::the_loss_of_both_pipes_ends_it [] "10.2" "10.3";
    life::nothing_outlives_a_provider_that_is_killed [] "10.6";
    life::a_host_that_says_nothing_for_a_lease_is_gone [Lease] "8.8" "10.6";
    life::any_line_keeps_a_lease [Lease] "8.8";
    life::shutdown_takes_no_new_work [] "10.1";
    life::a_daemon_that_holds_the_output_holds_no_call [] "7.7.3";
    life::children_do_not_inherit_the_connection [] "1.6";

    robustness::ten_thousand_mutated_lines_cause_no_crash_and_no_storm [] "2.5" "2.6";
    robustness::a_line_nested_without_end_is_survived [] "2.6";
    robustness::a_thousand_pings_at_once_are_answered_once_each [] "6.5" "12.3";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_check_of_the_wire_has_a_name_of_its_own() {
        let names: BTreeSet<_> = WIRE_CHECKS
            .iter()
            .map(|check| (check.group, check.name))
            .collect();
        assert_eq!(names.len(), WIRE_CHECKS.len());
    }
}
