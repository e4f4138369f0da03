//! Questions of a running call about hosts. Nothing here leaves loopback: names
//! come from a resolver of the test's own.

use crate::support::Workspace;
use async_trait::async_trait;
use futures::future::join_all;
use halter_policy::{Destination, Permissions, SourcedRule};
use halter_protocol::{
    Action, ApprovalChoice, Objection, PermissionMode, Question, RuleEffect, RuleSource,
};
use halter_tools::limits::HOST_QUESTIONS;
use halter_tools::network::{ConnectError, HostQuestions, HostResolver};
use halter_tools::{Answers, PolicySettings, QuestionAsker, ToolContext};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// Says the same to everything.
struct Person {
    says: ApprovalChoice,
    asked: Mutex<Vec<(String, Option<String>)>>,
}

#[async_trait]
impl QuestionAsker for Person {
    async fn ask(&self, _: Vec<Question>) -> Answers {
        unreachable!("hosts are approved, not asked for in words")
    }

    async fn approve(&self, actions: Vec<Action>, objection: Objection) -> ApprovalChoice {
        let [Action::Reach { host }] = &actions[..] else {
            panic!("{actions:?}");
        };
        assert_eq!(objection.fragment.as_ref(), Some(host));
        let asked = (host.clone(), objection.always);
        self.asked.lock().unwrap().push(asked);
        tokio::task::yield_now().await;
        self.says.clone()
    }
}

impl Person {
    fn new(says: ApprovalChoice) -> Arc<Self> {
        let asked = Mutex::default();
        Arc::new(Self { says, asked })
    }

    fn hosts(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|(host, _)| host.clone()).collect()
    }
}

#[derive(Debug)]
struct Here;

#[async_trait]
impl HostResolver for Here {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }
}

fn workspace(mode: PermissionMode) -> Workspace {
    let rule = |effect, text: &str| SourcedRule::new(effect, text, RuleSource::User).unwrap();
    let mut workspace = Workspace::with_settings(PolicySettings {
        permissions: Permissions {
            mode,
            rules: vec![
                rule(RuleEffect::Deny, "WebFetch(domain:denied.test)"),
                rule(RuleEffect::Ask, "WebFetch(domain:127.0.0.2)"),
            ],
            home: None,
        },
        ..PolicySettings::default()
    });
    workspace.resolve_by(Arc::new(Here));
    workspace
}

fn asking(workspace: &Workspace, person: &Arc<Person>) -> ToolContext {
    let mut context = workspace.context();
    context.asker = Arc::clone(person) as _;
    context.hosts = Some(HostQuestions::new(
        Arc::clone(&context.asker),
        Arc::clone(&context.policy),
        context.cancel.clone(),
    ));
    context
}

/// How a connection ends: with nothing, or the code of what went wrong.
async fn connect(context: &ToolContext, host: &str) -> Option<&'static str> {
    let destination = Destination::parse(host).unwrap();
    let connected = context.connect(&destination).await;
    connected.err().map(|error: ConnectError| error.code())
}

#[tokio::test]
async fn connections_to_one_host_are_one_question_and_each_call_asks_anew() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let workspace = workspace(PermissionMode::WorkspaceWrite);
    let person = Person::new(ApprovalChoice::Once);
    for calls in 1..=2 {
        let context = asking(&workspace, &person);
        let connections = (0..20).map(|_| connect(&context, &host));
        assert_eq!(join_all(connections).await, [None; 20]);
        assert_eq!(person.hosts(), vec![host.clone(); calls]);
    }
    let denies = Person::new(ApprovalChoice::Deny);
    let context = asking(&workspace, &denies);
    for _ in 0..3 {
        assert_eq!(connect(&context, &host).await, Some("network.loopback"));
    }
    assert_eq!(denies.hosts(), [host]);
}

#[tokio::test]
async fn a_name_that_was_approved_leads_to_no_address_that_was_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let workspace = workspace(PermissionMode::WorkspaceWrite);
    let person = Person::new(ApprovalChoice::Session);
    let context = asking(&workspace, &person);
    let host = format!("files.test:{port}");
    assert_eq!(connect(&context, &host).await, Some("network.loopback"));
    assert_eq!(person.hosts(), [host]);
    // What has only that meaning is approved by its name.
    let host = format!("localhost:{port}");
    assert_eq!(connect(&context, &host).await, None);
}

#[tokio::test]
async fn what_no_person_may_open_is_not_asked_about() {
    let person = Person::new(ApprovalChoice::Always);
    for (mode, host, rule) in [
        (
            PermissionMode::WorkspaceWrite,
            "denied.test:80",
            "deny_rule",
        ),
        (
            PermissionMode::WorkspaceWrite,
            "169.254.169.254:80",
            "network.metadata",
        ),
        (
            PermissionMode::WorkspaceWrite,
            "0.0.0.0:80",
            "network.unspecified",
        ),
        (PermissionMode::ReadOnly, "127.0.0.1:80", "network.loopback"),
        (PermissionMode::Allow, "127.0.0.1:80", "network.loopback"),
    ] {
        let workspace = workspace(mode);
        let context = asking(&workspace, &person);
        assert_eq!(connect(&context, host).await, Some(rule), "{mode} {host}");
    }
    assert!(person.hosts().is_empty(), "{:?}", person.hosts());
    // A rule that asks is answered for the call: no other rule would hold.
    let workspace = workspace(PermissionMode::WorkspaceWrite);
    let context = asking(&workspace, &person);
    assert_eq!(
        connect(&context, "127.0.0.2:1").await,
        Some("host_unreachable")
    );
    let asked = person.asked.lock().unwrap().clone();
    assert_eq!(asked, [("127.0.0.2:1".to_owned(), None)]);
}

#[tokio::test]
async fn a_call_asks_about_so_many_hosts_and_no_more() {
    let workspace = workspace(PermissionMode::WorkspaceWrite);
    let person = Person::new(ApprovalChoice::Once);
    let context = asking(&workspace, &person);
    for port in 1..=HOST_QUESTIONS {
        let host = format!("127.0.0.1:{port}");
        assert_ne!(connect(&context, &host).await, Some("network.loopback"));
    }
    let one_more = format!("127.0.0.1:{}", HOST_QUESTIONS + 1);
    assert_eq!(connect(&context, &one_more).await, Some("network.loopback"));
    assert_eq!(person.hosts().len(), HOST_QUESTIONS);
}
