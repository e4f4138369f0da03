//! Scenarios of the model service, played with the whole binary: each asserts
//! the events, the requests that the service captured, and files on disk.

mod ask_user;
mod compaction;
mod dialects;
mod faults;
mod hooks;
mod mcp;
mod media;
mod moves;
pub mod stage;
mod streams;
mod structured;
mod subagents;
mod tool_search;

/// A test for each scenario, and the list of them: a name without a function
/// does not compile, and a function without a name here is unused.
macro_rules! played {
    ($($module:ident::$name:ident on $wires:ident;)*) => {
        const PLAYED: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                for wire in stage::$wires {
                    let stage = stage::Stage::new(wire);
                    $module::$name(&stage);
                    stage.close();
                }
            }
        )*
    };
}

played! {
    moves::streaming_text on WIRES;
    moves::read_file_roundtrip on WIRES;
    moves::grep_chunk_assembly on WIRES;
    moves::write_file_allowed on WIRES;
    moves::write_file_denied on WIRES;
    moves::multi_tool_turn_roundtrip on WIRES;
    moves::bash_stdout_roundtrip on WIRES;
    moves::background_job on WIRES;
    subagents::subagent on WIRES;
    subagents::subagent_child on ANTHROPIC;
    subagents::subagent_background on WIRES;
    subagents::subagent_slow on ANTHROPIC;
    subagents::subagent_deep on ANTHROPIC;
    subagents::subagent_middle on ANTHROPIC;
    subagents::subagent_asks on ANTHROPIC;
    moves::bash_permission_prompt_approved on WIRES;
    moves::bash_permission_prompt_denied on WIRES;
    moves::token_cost_reporting on WIRES;
    moves::thinking on WIRES;
    moves::thinking_tool on WIRES;
    moves::parallel_tools on WIRES;
    moves::edit_roundtrip on WIRES;
    moves::unknown_tool on WIRES;
    moves::bad_arguments on WIRES;
    moves::resume on WIRES;
    mcp::mcp_stdio on WIRES;
    mcp::plugin_tool_roundtrip on WIRES;
    moves::cache_marks on ANTHROPIC;
    compaction::auto_compact_triggered on ANTHROPIC;
    compaction::compaction_summary on WIRES;
    compaction::after_compaction on WIRES;
    compaction::context_overflow on WIRES;
    hooks::hook_allows on WIRES;
    hooks::hook_blocks on WIRES;
    hooks::hook_rewrites on WIRES;
    moves::interrupt on WIRES;
    moves::interrupt_tool on ANTHROPIC;
    media::images on WIRES;
    media::image_result on WIRES;
    structured::structured on WIRES;
    structured::structured_repair on WIRES;
    structured::structured_tool on WIRES;
    structured::structured_hopeless on WIRES;
    ask_user::ask_user on WIRES;
    tool_search::tool_search on WIRES;
    tool_search::tool_search_skipped on WIRES;
    moves::default on ANTHROPIC;
    moves::empty on ANTHROPIC;
    moves::redacted_thinking on ANTHROPIC;
    moves::many_steps on ANTHROPIC;
    moves::empty_arguments on ANTHROPIC;
    moves::wrong_type on ANTHROPIC;
    moves::tool_list on ANTHROPIC;
    moves::cached on ANTHROPIC;
    moves::gated on ANTHROPIC;
    faults::overloaded on ANTHROPIC;
    faults::overloaded_once on WIRES;
    faults::rate_limited on ANTHROPIC;
    faults::rate_limited_twice on WIRES;
    faults::spend_cap on WIRES;
    faults::unauthorized on WIRES;
    faults::server_error_in_turn on WIRES;
    faults::truncate on WIRES;
    faults::truncate_in_call on WIRES;
    faults::reset on WIRES;
    faults::reset_at_start on WIRES;
    faults::stall on ANTHROPIC;
    faults::max_tokens_in_call on WIRES;
    faults::late_first_byte on ANTHROPIC;
    faults::hang on ANTHROPIC;
    faults::stall_at_start on ANTHROPIC;
    faults::stall_with_pings on ANTHROPIC;
    faults::invalid_after_ok on WIRES;
    faults::garbage on WIRES;
    faults::rate_limited_once on ANTHROPIC;
    faults::retry_after_date on ANTHROPIC;
    faults::rate_headers on ANTHROPIC;
    faults::server_error on ANTHROPIC;
    faults::forbidden on ANTHROPIC;
    faults::no_credit on ANTHROPIC;
    faults::context_exceeded on WIRES;
    streams::unicode on WIRES;
    streams::crlf on WIRES;
    streams::split_bytes on WIRES;
    streams::comments on WIRES;
    streams::missing_terminator on CHAT;
    streams::slow on WIRES;
    streams::unknown_everything on WIRES;
    streams::max_tokens on WIRES;
    streams::error_after_ok on WIRES;
    streams::error_before_content on WIRES;
    streams::truncate_at_end on WIRES;
    streams::unavailable on WIRES;
    streams::cr on ANTHROPIC;
    streams::many_deltas on ANTHROPIC;
    streams::huge_line on ANTHROPIC;
    streams::max_tokens_after_call on WIRES;
    streams::refusal on WIRES;
    streams::content_filter on ANTHROPIC;
    streams::context_window on ANTHROPIC;
    streams::pause on ANTHROPIC;
    streams::unknown_stop on ANTHROPIC;
    dialects::chat_missing_index on CHAT;
    dialects::chat_repeated_id on CHAT;
    dialects::chat_empty_id on CHAT;
    dialects::chat_whole_call on CHAT;
    dialects::chat_split_name on CHAT;
    dialects::chat_arguments_object on CHAT;
    dialects::chat_shared_index on CHAT;
    dialects::chat_stop_with_calls on CHAT;
    dialects::chat_empty_arguments on CHAT;
    dialects::chat_usage_on_choice on CHAT;
    dialects::chat_no_usage on CHAT;
    dialects::chat_missing_done on CHAT;
    dialects::chat_processing_comments on CHAT;
    dialects::chat_reasoning on CHAT;
    dialects::chat_reasoning_text on CHAT;
    dialects::chat_think_tags on CHAT;
    dialects::chat_reasoning_content on CHAT;
    dialects::chat_reasoning_details on CHAT;
    dialects::chat_error_chunk on CHAT;
}

#[test]
fn a_structured_answer_is_printed_in_every_mode() {
    let stage = stage::Stage::new(&stage::ANTHROPIC[0]);
    structured::structured_modes(&stage);
    stage.close();
}

#[test]
fn a_pdf_goes_with_the_task_on_every_wire() {
    for wire in stage::WIRES {
        let stage = stage::Stage::new(wire);
        media::pdf_attached(&stage);
        stage.close();
    }
}

#[test]
fn the_first_request_with_all_tools_is_small_on_every_wire() {
    for wire in stage::WIRES {
        let stage = stage::Stage::new(wire);
        tool_search::first_request_is_small(&stage);
        stage.close();
    }
}

#[test]
fn a_tree_of_sessions_is_written_to_one_trace() {
    let stage = stage::Stage::new(&stage::ANTHROPIC[0]);
    subagents::one_trace(&stage);
    stage.close();
}

#[test]
fn every_scenario_is_played() {
    let library = halter_mock::ScenarioLibrary::built_in().unwrap();
    for (name, _) in library.iter() {
        assert!(PLAYED.contains(&name), "{name}");
    }
    for name in PLAYED {
        assert!(library.get(name).is_some(), "{name}");
    }
}
