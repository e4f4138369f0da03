//! What servers ask for while their tools run: people, models, directories.

use crate::support::{Started, context, fixture_server};
use async_trait::async_trait;
use halter_mcp::limits::{CALL_TIMEOUT, FORM_ADDRESS_BYTES, FORM_TRIES, REQUESTS_PER_CALL};
use halter_protocol::{Question, QuestionResponse, ResolvedBy, ToolError};
use halter_tools::{Answers, ModelAsker, ModelQuestion, ModelReply, QuestionAsker, ToolContext};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

type Answering = dyn Fn(&[Question]) -> Vec<QuestionResponse> + Send + Sync;

/// A person who answers in this way, once they are let.
struct Person {
    asked: Mutex<Vec<Vec<Question>>>,
    answers: Box<Answering>,
    lets: Semaphore,
}

impl Person {
    fn who(
        answers: impl Fn(&[Question]) -> Vec<QuestionResponse> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            asked: Mutex::default(),
            answers: Box::new(answers),
            lets: Semaphore::new(Semaphore::MAX_PERMITS),
        })
    }

    fn asked(&self) -> Vec<Vec<Question>> {
        self.asked.lock().unwrap().clone()
    }

    fn in_call(self: &Arc<Self>) -> ToolContext {
        let mut context = context(CancellationToken::new());
        context.asker = self.clone();
        context
    }
}

#[async_trait]
impl QuestionAsker for Person {
    async fn ask(&self, questions: Vec<Question>) -> Answers {
        self.asked.lock().unwrap().push(questions.clone());
        self.lets.acquire().await.unwrap().forget();
        Answers {
            responses: (self.answers)(&questions),
            by: ResolvedBy::User,
        }
    }
}

fn form(properties: Value, required: Value) -> Value {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    json!({"method": "elicitation/create", "params":
        {"message": "Who are you?", "requestedSchema": schema}})
}

/// Has a server ask for something during a call; what it got.
async fn got(behaviour: &str, request: &Value, context: &ToolContext) -> Value {
    let started = Started::one(fixture_server("x", behaviour)).await;
    let text = json!({"text": request.to_string()});
    let answer = started.call_with("mcp__x__echo", text, context).await;
    started.servers.shutdown().await;
    serde_json::from_str(&answer.unwrap().to_model_text()).unwrap()
}

#[tokio::test]
async fn a_form_of_a_server_is_asked_in_the_session_by_every_revision() {
    let properties = json!({
        "name": {"type": "string", "title": "Name"},
        "colours": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}},
        "age": {"type": "integer", "default": 30},
        "sure": {"type": "boolean"},
    });
    let request = form(properties, json!(["name", "sure"]));
    for behaviour in ["requests", "requests_input"] {
        let person = Person::who(|_| {
            vec![
                QuestionResponse::text("Ada"),
                QuestionResponse::selected("blue"),
                QuestionResponse::skipped(),
                QuestionResponse::selected("true"),
            ]
        });
        let answer = got(behaviour, &request, &person.in_call()).await;
        let content = json!({"name": "Ada", "colours": ["blue"], "age": 30, "sure": true});
        assert_eq!(answer, json!({"action": "accept", "content": content}));
        let asked = person.asked();
        let first = &asked[0][0].question;
        assert!(
            first.starts_with("The MCP server `x` asks, and gets the answer (give it no passwords"),
            "{first}"
        );
        assert!(first.ends_with("Who are you?\nName"), "{first}");
        assert_eq!(asked[0].len(), 4);
    }
}

#[tokio::test]
async fn what_does_not_fit_is_asked_again_so_often_and_no_more() {
    let request = form(json!({"age": {"type": "integer"}}), json!(["age"]));
    let tried = Mutex::new(0);
    let person = Person::who(move |_| {
        let mut tried = tried.lock().unwrap();
        *tried += 1;
        vec![QuestionResponse::text(if *tried == FORM_TRIES {
            "41"
        } else {
            "old"
        })]
    });
    let answer = got("requests", &request, &person.in_call()).await;
    assert_eq!(answer["content"], json!({"age": 41}));
    let asked = person.asked();
    assert_eq!(asked.len(), FORM_TRIES);
    assert!(asked[1][0].question.starts_with("That was no answer. age:"));
    let never = Person::who(|_| vec![QuestionResponse::text("old")]);
    let answer = got("requests", &request, &never.in_call()).await;
    assert_eq!(answer, json!({"action": "cancel"}));
    assert_eq!(never.asked().len(), FORM_TRIES);
}

#[tokio::test]
async fn a_person_may_decline_and_where_nobody_is_asked_it_is_cancelled() {
    let request = form(json!({"age": {"type": "integer", "default": 3}}), json!([]));
    let person = Person::who(|_| vec![QuestionResponse::skipped()]);
    let answer = got("requests", &request, &person.in_call()).await;
    assert_eq!(answer, json!({"action": "decline"}));
    let nobody = context(CancellationToken::new());
    let answer = got("requests", &request, &nobody).await;
    assert_eq!(answer, json!({"action": "cancel"}));
    let agrees = Person::who(|_| vec![QuestionResponse::selected("accept")]);
    let answer = got("requests", &form(json!({}), json!([])), &agrees.in_call()).await;
    assert_eq!(answer, json!({"action": "accept", "content": {}}));
}

#[tokio::test]
async fn an_address_is_shown_whole_with_its_host_and_never_opened() {
    let request = |url: &str| {
        json!({"method": "elicitation/create", "params": {"mode": "url", "elicitationId": "e",
            "message": "Log in.", "url": url}})
    };
    let person = Person::who(|_| vec![QuestionResponse::selected("accept")]);
    let address = "https://xn--pple-43d.example/login?state=1";
    let answer = got("requests", &request(address), &person.in_call()).await;
    assert_eq!(answer, json!({"action": "accept"}));
    let asked = person.asked()[0][0].question.clone();
    assert!(asked.contains(&format!("\n{address}\n")), "{asked}");
    assert!(
        asked.contains("of xn--pple-43d.example, which is written in letters"),
        "{asked}"
    );
    assert!(asked.contains("nothing has been opened"), "{asked}");
    let long = |bytes: usize| {
        let start = "https://a.example/";
        format!("{start}{}", "a".repeat(bytes - start.len()))
    };
    for (url, shown) in [
        (long(FORM_ADDRESS_BYTES), true),
        (long(FORM_ADDRESS_BYTES + 1), false),
        ("file:///etc/passwd".to_owned(), false),
        ("javascript:alert(1)".to_owned(), false),
        ("no address".to_owned(), false),
    ] {
        let person = Person::who(|_| vec![QuestionResponse::selected("decline")]);
        let answer = got("requests", &request(&url), &person.in_call()).await;
        assert_eq!(answer["action"] == "decline", shown, "{answer}");
        assert_eq!(person.asked().len(), usize::from(shown));
    }
}

#[tokio::test]
async fn no_deadline_of_a_call_runs_while_a_person_thinks() {
    let person = Arc::new(Person {
        lets: Semaphore::new(0),
        ..Arc::into_inner(Person::who(|_| vec![QuestionResponse::text("Ada")])).unwrap()
    });
    let started = Started::one(fixture_server("x", "requests")).await;
    let request = form(json!({"name": {"type": "string"}}), json!(["name"]));
    let text = json!({"text": request.to_string()});
    let context = person.in_call();
    let calling = started.call_patiently("mcp__x__echo", text, &context);
    let (answer, ()) = tokio::join!(calling, async {
        while person.asked().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // The call sees the same before the clock is moved.
        tokio::task::yield_now().await;
        tokio::time::pause();
        tokio::time::advance(CALL_TIMEOUT * 100).await;
        tokio::time::resume();
        person.lets.add_permits(1);
    });
    let answer: Value = serde_json::from_str(&answer.unwrap().to_model_text()).unwrap();
    assert_eq!(answer["action"], "accept");
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_asks_outside_of_a_call_is_not_heard() {
    let started = Started::one(fixture_server("x", "asks_at_list")).await;
    let described = started.status().tools[0].spec.description.clone();
    assert!(
        described.starts_with("{\"action\":\"cancel\"}"),
        "{described}"
    );
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_two_sessions_wait_for_asks_neither() {
    let started = Started::one(fixture_server("x", "asks_when_two_wait")).await;
    let person = Person::who(|_| vec![QuestionResponse::selected("accept")]);
    let (first, mut second) = (person.in_call(), person.in_call());
    second.session_id = "session_2".into();
    let call = |context| started.call_with("mcp__x__echo", json!({}), context);
    let (one, two) = tokio::join!(call(&first), call(&second));
    for answer in [one, two] {
        assert_eq!(answer.unwrap().to_model_text(), "{\"action\":\"cancel\"}");
    }
    assert!(person.asked().is_empty());
    started.servers.shutdown().await;
}

/// A model that repeats what it is asked.
struct Echo(Mutex<Vec<ModelQuestion>>);

#[async_trait]
impl ModelAsker for Echo {
    async fn ask(&self, question: ModelQuestion) -> Result<ModelReply, ToolError> {
        let text = format!("{} STOP and more", question.system);
        self.0.lock().unwrap().push(question);
        Ok(ModelReply {
            text,
            model: "echo-1".to_owned(),
            cut_off: false,
        })
    }
}

#[tokio::test]
async fn a_server_that_may_has_a_model_of_the_session_answer() {
    let request = json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        "systemPrompt": "Be kind.", "maxTokens": 10, "stopSequences": [" STOP"],
    }});
    for behaviour in ["requests", "requests_input"] {
        for allowed in [true, false] {
            let mut settings = fixture_server("x", behaviour);
            settings.sampling = allowed;
            let started = Started::one(settings).await;
            let model = Arc::new(Echo(Mutex::default()));
            let mut context = context(CancellationToken::new());
            context.models = Some(model.clone());
            let text = json!({"text": request.to_string()});
            let answer = started.call_with("mcp__x__echo", text, &context).await;
            started.servers.shutdown().await;
            assert_eq!(model.0.lock().unwrap().len(), usize::from(allowed));
            let said = match answer {
                Ok(answer) => answer.to_model_text(),
                Err(error) => error.message,
            };
            if !allowed {
                assert!(said.contains("may ask no model"), "{said}");
                continue;
            }
            let said: Value = serde_json::from_str(&said).unwrap();
            let content = json!({"type": "text", "text": "Be kind."});
            let expected = json!({"role": "assistant", "content": content, "model": "echo-1",
                "stopReason": "stopSequence"});
            assert_eq!(said, expected);
        }
    }
}

#[tokio::test]
async fn a_call_asks_for_so_much_and_no_more() {
    // At once, and in several rounds of one call.
    for (behaviour, count) in [
        ("requests_many", REQUESTS_PER_CALL + 1),
        ("requests_often", REQUESTS_PER_CALL / 2 + 1),
    ] {
        let many: serde_json::Map<String, Value> = (0..count)
            .map(|n| (format!("k{n}"), json!({"method": "roots/list"})))
            .collect();
        let started = Started::one(fixture_server("x", behaviour)).await;
        let text = json!({"text": Value::Object(many).to_string()});
        let error = started.call("mcp__x__echo", text).await.unwrap_err();
        let limit = format!("more than {REQUESTS_PER_CALL} inputs");
        assert!(error.message.contains(&limit), "{error}");
        started.servers.shutdown().await;
    }
}
