//! What a strict service checks of `contents`, written from its rules alone.

use serde_json::Value;

/// Checks the placement of calls, results and signatures.
pub fn check(body: &str) -> Result<(), String> {
    let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let contents = body["contents"].as_array().ok_or("no contents")?;
    let mut open: Vec<&Value> = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let parts = content["parts"].as_array().ok_or("no parts")?;
        if parts.is_empty() {
            return Err(format!("{index}: no parts"));
        }
        let named = |name: &str| -> Vec<&Value> {
            parts.iter().filter_map(|part| part.get(name)).collect()
        };
        let (calls, responses) = (named("functionCall"), named("functionResponse"));
        match content["role"].as_str() {
            Some("user") if calls.is_empty() => {}
            Some("model") if responses.is_empty() => {}
            role => return Err(format!("{index}: role {role:?} with the wrong parts")),
        }
        if responses.len() != open.len() {
            return Err(format!(
                "{index}: {} calls are open, {} results stand here",
                open.len(),
                responses.len()
            ));
        }
        let led = parts.iter().take(responses.len());
        if !led
            .clone()
            .all(|part| part.get("functionResponse").is_some())
        {
            return Err(format!("{index}: results are mixed with other parts"));
        }
        for (call, response) in open.iter().zip(&responses) {
            pair(call, response).map_err(|error| format!("{index}: {error}"))?;
        }
        signature(parts).map_err(|error| format!("{index}: {error}"))?;
        open = calls;
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(format!("{open:?} have no results")),
    }
}

fn pair(call: &Value, response: &Value) -> Result<(), String> {
    if call["name"] != response["name"] || call.get("id") != response.get("id") {
        return Err(format!("{response} does not answer {call}"));
    }
    for part in response["parts"].as_array().into_iter().flatten() {
        if !part["inlineData"]["data"].is_string() {
            return Err(format!("a part {part} in a response"));
        }
    }
    let outcome = response["response"].as_object().ok_or("no response")?;
    let names: Vec<&String> = outcome.keys().collect();
    match names.as_slice() {
        [name] if *name == "output" || *name == "error" => Ok(()),
        _ => Err(format!("an outcome {outcome:?}")),
    }
}

/// The first call of a step has a signature.
fn signature(parts: &[Value]) -> Result<(), String> {
    let first = parts.iter().find(|part| part.get("functionCall").is_some());
    match first {
        Some(part) if !part["thoughtSignature"].is_string() => {
            Err("Function call is missing a thought_signature in functionCall parts".to_owned())
        }
        _ => Ok(()),
    }
}

#[test]
fn the_checker_refuses_what_a_service_refuses() {
    let body = |contents: &str| format!(r#"{{"contents":[{contents}]}}"#);
    let call = r#"{"role":"model","parts":[{"functionCall":{"name":"n","id":"a","args":{}},"thoughtSignature":"s"}]}"#;
    let answer = r#"{"role":"user","parts":[{"functionResponse":{"name":"n","id":"a","response":{"output":""}}}]}"#;
    let hello = r#"{"role":"user","parts":[{"text":"hello"}]}"#;
    assert_eq!(check(&body(&format!("{hello},{call},{answer}"))), Ok(()));
    for wrong in [
        call.to_owned(),
        answer.to_owned(),
        format!("{call},{hello},{answer}"),
        format!("{call},{answer},{answer}"),
        format!("{call},{}", answer.replace("\"a\"", "\"b\"")),
        format!("{call},{}", answer.replace("output", "result")),
        format!(
            "{},{answer}",
            call.replace(",\"thoughtSignature\":\"s\"", "")
        ),
        r#"{"role":"system","parts":[{"text":"x"}]}"#.to_owned(),
        r#"{"role":"user","parts":[]}"#.to_owned(),
    ] {
        assert!(check(&body(&wrong)).is_err(), "{wrong}");
    }
}
