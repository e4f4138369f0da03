//! Questions that a call asks: answered in every form, and skipped.

use super::Recorded;
use super::scenarios::{harness, recorded, session};
use futures::StreamExt;
use halter::prelude::*;
use halter_protocol::{QuestionResponse, Turn};
use halter_runtime::Approvals;
use halter_testkit::{Harness, Reply};
use halter_tools::builtin_tools;
use serde_json::json;

pub async fn questions() -> Recorded {
    let ask = json!({"questions": [
        {"question": "Which database?", "options": [
            {"id": "sqlite", "text": "SQLite"}, {"id": "postgres", "text": "Postgres"},
        ]},
        {"question": "Which tests?", "is_multi_select": true, "options": [
            {"id": "unit", "text": "Unit tests"}, {"id": "e2e", "text": "End to end"},
        ]},
        {"question": "What is it called?"},
    ]});
    let replies = [
        Reply::new().tool_call("ask_user", ask),
        "SQLite it is.".into(),
    ];
    let builder = Harness::scripted(replies).tools(builtin_tools());
    let harness = harness(builder.services(|services| services.approvals = Approvals::Attended));
    let session = session(&harness, "questions").await;
    let mut events = session.submit_turn(Turn::user("Set it up")).await.unwrap();
    while let Some(event) = events.next().await {
        if let SessionEventPayload::QuestionsAsked(request) = event.unwrap().payload {
            let both = QuestionResponse {
                selected_option_ids: Some(vec!["unit".into(), "e2e".into()]),
                freeform_response: "unit tests first".into(),
                skipped: false,
            };
            let answers = vec![
                QuestionResponse::selected("sqlite"),
                both,
                QuestionResponse::skipped(),
            ];
            session
                .answer_questions(&request.question_id, answers)
                .await
                .unwrap();
        }
    }
    recorded(&harness, &session).await
}
