//! One suite that every wire passes, shown with its example streams.

mod bytes;
mod cancel;
mod exchanges;
mod faults;
mod fuzz;
mod names;
mod streams;
mod subject;

/// A module of tests for one wire.
macro_rules! on_wire {
    ($wire:ident: $($module:ident::$test:ident,)*) => {
        mod $wire {
            $(#[test]
            fn $test() {
                super::$module::$test(&super::subject::$wire());
            })*
        }
    };
}

macro_rules! on_every_wire {
    ($($tests:tt)*) => {
        on_wire! { anthropic: $($tests)* }
        on_wire! { chat: $($tests)* }
        on_wire! { gemini: $($tests)* }
        on_wire! { responses: $($tests)* }
    };
}

on_every_wire! {
    streams::streams_decode_to_their_golden_events,
    streams::an_answer_has_its_reason_to_end,
    streams::usage_lands_in_disjoint_buckets,
    exchanges::usage_of_example_exchanges_is_normalized,
    bytes::any_cutting_of_the_bytes_decodes_to_the_same_events,
    bytes::characters_split_between_pieces_arrive_whole,
    bytes::lines_may_end_in_any_way,
    bytes::comments_change_nothing,
    bytes::a_huge_line_arrives_whole,
    bytes::the_last_blank_line_may_be_missing,
    faults::a_cut_is_never_taken_for_the_end,
    faults::an_error_after_status_200_ends_the_answer,
    faults::half_a_call_is_never_a_call,
    faults::unknown_things_are_ignored,
    faults::unknown_events_anywhere_change_nothing,
    faults::unknown_members_anywhere_change_nothing,
    faults::a_missing_terminator_is_told_from_a_cut,
    cancel::cancelling_at_each_event_ends_the_answer_there,
    cancel::an_answer_let_go_at_each_event_leaves_nothing_behind,
    names::names_and_ids_are_kept_up_to_their_limit,
    fuzz::whole_and_damaged_streams_never_break_the_decoder,
}
