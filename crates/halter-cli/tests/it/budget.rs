//! Budgets, as a user sees them.

use crate::place::Place;
use crate::screen::Screen;

const ENTER: &str = "\r";

#[test]
fn a_run_over_its_budget_ends_with_code_5_and_says_what_to_raise() {
    let place = Place::new();
    let ran = place.halter(["run", "--text", "--budget-tokens", "900", "hello"]);
    let ran = ran.expect(5);
    assert!(
        ran.stderr.contains("error[budget_exceeded]"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("the session's budget of 900 tokens has no room"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("--budget-tokens or budget.tokens"),
        "{}",
        ran.stderr
    );
    let ran = place.halter(["run", "--budget-tokens", "900", "hello"]);
    assert_eq!(ran.expect(5).json()["error"]["code"], "budget_exceeded");
}

#[test]
fn the_file_limits_too_and_the_command_line_wins() {
    let place = Place::new();
    place.write(
        "limited.toml",
        "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
         [budget]\ntokens = 900\nusd = 0.5\n[budget.turn]\nmodel_calls = 9\n",
    );
    let run = |more: &[&str]| {
        let mut arguments = vec!["--config", "limited.toml", "run", "--text"];
        arguments.extend(more);
        arguments.push("hello");
        place.halter(arguments)
    };
    run(&[]).expect(5);
    run(&["--budget-tokens", "50000"]).expect(0);
    let ran = run(&["--budget-tokens", "50000", "--budget-model-calls", "0"]);
    assert!(
        ran.expect(5).stderr.contains("0 model calls"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_session_keeps_its_budget_and_a_larger_one_can_be_given() {
    let place = Place::new();
    place.write(
        "kept.toml",
        "version = 1\n[models.default]\nprovider = \"offline\"\nmodel = \"offline\"\n\
         [sessions]\nbackend = \"sqlite\"\n",
    );
    let config = ["--config", "kept.toml"];
    let halter = |rest: &[&str]| place.halter(config.iter().chain(rest).copied());
    halter(&["run", "--text", "--budget-model-calls", "1", "hello"]).expect(0);
    let listed = halter(&["sessions", "list", "--json"]);
    let id = listed.expect(0).json()["sessions"][0]["session_id"].clone();
    let id = id.as_str().unwrap();
    let ran = halter(&["run", "--text", "--session", id, "again"]);
    assert!(
        ran.expect(5).stderr.contains("1 model call is used up"),
        "{}",
        ran.stderr
    );
    let larger = ["--budget-model-calls", "2"];
    halter(&[
        "run",
        "--text",
        "--session",
        id,
        larger[0],
        larger[1],
        "again",
    ])
    .expect(0);
    halter(&["run", "--text", "--session", id, "again"]).expect(5);
    let shown = halter(&["sessions", "show", id]);
    let line = "budget     2 model calls of 2 model calls spent, 0 model calls left";
    assert!(shown.expect(0).stdout.contains(line), "{}", shown.stdout);
}

#[test]
fn money_without_a_price_is_refused_with_the_key_to_set() {
    let place = Place::new();
    place.write(
        "local.toml",
        "version = 1\n[models.default]\nprovider = \"mine\"\nmodel = \"own\"\n\
         [providers.mine]\nwire = \"chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\n",
    );
    let ran = place.halter([
        "--config",
        "local.toml",
        "run",
        "--budget-usd",
        "2",
        "hello",
    ]);
    let error = &ran.expect(2).json()["error"];
    assert_eq!(error["code"], "budget_needs_price");
    let hint = error["hint"].as_str().unwrap();
    assert!(
        hint.contains("providers.mine.models.\"own\".prices"),
        "{hint}"
    );
    let ran = place.halter(["run", "--budget-usd", "two", "hello"]);
    assert!(
        ran.expect(2).stderr.contains("decimal number"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_chat_shows_what_is_spent_and_what_to_do_at_the_end() {
    let place = Place::new();
    let arguments = ["chat", "--budget-model-calls", "5"];
    let mut screen = Screen::open(&place, &arguments);
    let say = |screen: &mut Screen, prompt: usize, text: &str| {
        screen.wait_for_prompt(prompt);
        screen.send(text);
        screen.send(ENTER);
    };
    for prompt in 1..=4 {
        say(&mut screen, prompt, "hello");
    }
    screen.wait_for("budget: 4 model calls of the session's 5 model calls spent");
    say(&mut screen, 5, "/cost");
    screen.wait_for("4 model calls of 5 model calls spent, 1 model call left");
    say(&mut screen, 6, "hello");
    say(&mut screen, 7, "hello");
    screen.wait_for("budget_exceeded");
    screen.wait_for("--budget-model-calls");
    say(&mut screen, 8, "/exit");
    let (status, shown) = screen.end();
    assert_eq!(status.code(), Some(0), "{shown}");
}
