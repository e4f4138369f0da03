//! The JSON Schema of the protocol, made from its types and checked in.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::*;

const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/protocol.schema.json");
const RENEW: &str = "HALTER_UPDATE_SCHEMA";

struct Methods {
    generator: SchemaGenerator,
    methods: Map<String, Value>,
}

impl Methods {
    fn add<Params: JsonSchema, Data: JsonSchema>(&mut self, name: &str) {
        let entry = json!({
            "params": self.generator.subschema_for::<Params>(),
            "data": self.generator.subschema_for::<Data>(),
        });
        self.methods.insert(name.to_owned(), entry);
    }
}

fn methods() -> Methods {
    let mut all = Methods {
        generator: SchemaGenerator::default(),
        methods: Map::new(),
    };
    all.add::<HelloParams, Greeting>("hello");
    all.add::<Nothing, Ping>("system.ping");
    all.add::<Nothing, Stats>("system.stats");
    all.add::<Nothing, Description>("runtime.describe");
    all.add::<CreateParams, SessionCreated>("session.create");
    all.add::<Nothing, SessionListing>("session.list");
    all.add::<SessionParams, SessionInfo>("session.info");
    all.add::<SessionParams, Nothing>("session.renew");
    all.add::<DestroyParams, SessionDestroyed>("session.destroy");
    all.add::<ExecParams, ExecResult>("exec.run");
    all.add::<ExecParams, StreamStarted>("exec.stream");
    all.add::<WaitParams, WaitData>("exec.wait");
    all.add::<ReadParams, ReadData>("exec.read");
    all.add::<AttachParams, StreamStarted>("exec.attach");
    all.add::<WriteParams, Written>("exec.write");
    all.add::<ResizeParams, Nothing>("exec.resize");
    all.add::<SignalParams, Nothing>("exec.signal");
    all.add::<CancelParams, Cancelled>("exec.cancel");
    all.add::<Nothing, ExecListing>("exec.list");
    all.add::<FileStatParams, FileEntry>("fs.stat");
    all.add::<FileReadParams, FileData>("fs.read");
    all.add::<FileWriteParams, FileWritten>("fs.write");
    all.add::<FileListParams, FileListing>("fs.list");
    all.add::<FileWalkParams, FileWalkData>("fs.walk");
    all.add::<FileRemoveParams, FileRemoved>("fs.remove");
    all.add::<FileRenameParams, Nothing>("fs.rename");
    all.add::<FileMkdirParams, FileMkdirData>("fs.mkdir");
    all.add::<FileBoundsParams, FileBounds>("fs.bounds");
    all.add::<ProcessListParams, ProcessListing>("process.list");
    all.add::<ProcessSignalParams, ProcessSignalled>("process.signal");
    assert!(all.methods.keys().eq(Call::METHODS), "a method is missing");
    all
}

fn generate() -> Value {
    let mut all = methods();
    let requests: Vec<Value> = all
        .methods
        .iter()
        .map(|(name, entry)| {
            json!({
                "type": "object",
                "required": ["id", "method"],
                "properties": {
                    "id": { "$ref": "#/$defs/RequestId" },
                    "method": { "const": name },
                    "params": entry["params"],
                },
            })
        })
        .collect();
    let replies: Vec<Value> = all
        .methods
        .values()
        .map(|entry| entry["data"].clone())
        .collect();
    all.generator.subschema_for::<RequestId>();
    all.generator.subschema_for::<StreamLine>();
    all.generator.subschema_for::<WireError>();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The terminal runtime's protocol: one JSON object per line",
        "oneOf": [
            { "title": "A request", "oneOf": requests },
            {
                "title": "A reply that fulfils its request",
                "type": "object",
                "required": ["id", "ok", "data"],
                "properties": {
                    "id": { "$ref": "#/$defs/RequestId" },
                    "ok": { "const": true },
                    "data": { "anyOf": replies },
                },
            },
            {
                "title": "A reply that refuses its request",
                "type": "object",
                "required": ["id", "ok", "error"],
                "properties": {
                    "id": { "$ref": "#/$defs/RequestId" },
                    "ok": { "const": false },
                    "error": { "$ref": "#/$defs/WireError" },
                },
            },
            { "$ref": "#/$defs/StreamLine" },
        ],
        "methods": all.methods,
        "$defs": all.generator.definitions(),
    })
}

/// To renew the file, run this test with `HALTER_UPDATE_SCHEMA` set.
#[test]
fn the_checked_in_schema_is_current() {
    let mut text = serde_json::to_string_pretty(&generate()).unwrap();
    text.push('\n');
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(CHECKED_IN, &text).unwrap();
    }
    let stored = std::fs::read_to_string(CHECKED_IN).unwrap();
    assert!(
        stored == text,
        "{CHECKED_IN} is out of date: run the test with {RENEW}=1"
    );
}
