//! Which transcripts pair, and what is said about the others.

use halter_protocol::{Message, Transcript};
use halter_providers::check_pairing;

use crate::support::{assistant_calls, system, tool_result, user};

fn check(messages: Vec<Message>) -> Result<(), String> {
    let transcript: Transcript = messages.into_iter().collect();
    check_pairing(&transcript).map_err(|error| format!("{}: {error}", error.code()))
}

#[test]
fn results_in_call_order_right_after_their_calls_are_fine() {
    let fine = vec![
        user("go"),
        assistant_calls(&["a", "b"]),
        tool_result("a"),
        tool_result("b"),
        assistant_calls(&["a"]),
        tool_result("a"),
        system("note"),
        assistant_calls(&[]),
    ];
    assert_eq!(check(fine), Ok(()));
    assert_eq!(check(vec![]), Ok(()));
}

#[test]
fn a_call_that_is_never_answered_is_named() {
    assert_eq!(
        check(vec![
            user("go"),
            assistant_calls(&["a", "b"]),
            tool_result("a")
        ]),
        Err(
            "call_without_result: call 'b' of tool 'read' has no result: \
             nothing stands at message 3, where its result belongs"
                .to_owned()
        )
    );
}

#[test]
fn a_message_between_a_call_and_its_result_is_named() {
    assert_eq!(
        check(vec![
            assistant_calls(&["a"]),
            user("wait"),
            tool_result("a")
        ]),
        Err(
            "call_without_result: call 'a' of tool 'read' has no result: \
             a user message stands at message 1, where its result belongs"
                .to_owned()
        )
    );
}

#[test]
fn results_without_calls_are_named() {
    for messages in [
        vec![user("go"), tool_result("a")],
        vec![assistant_calls(&[]), tool_result("a")],
    ] {
        assert_eq!(
            check(messages),
            Err("result_without_call: the result at message 1 answers 'a', \
                 which is no open call"
                .to_owned())
        );
    }
    assert_eq!(
        check(vec![
            assistant_calls(&["a"]),
            tool_result("a"),
            tool_result("a")
        ]),
        Err("result_without_call: the result at message 2 answers 'a', \
             which is no open call"
            .to_owned())
    );
}

#[test]
fn swapped_results_are_named() {
    assert_eq!(
        check(vec![
            assistant_calls(&["a", "b"]),
            tool_result("b"),
            tool_result("a")
        ]),
        Err(
            "results_out_of_order: the result at message 1 answers 'b', \
             but 'a' was called first"
                .to_owned()
        )
    );
}

#[test]
fn one_id_for_two_calls_is_named() {
    assert_eq!(
        check(vec![
            assistant_calls(&["a", "a"]),
            tool_result("a"),
            tool_result("a")
        ]),
        Err(
            "repeated_call_id: the assistant message at 0 has two calls with the id 'a'".to_owned()
        )
    );
}
