//! The schema that an answer must fit, read from a file.

use crate::failure::{Failure, file_problem, usage};
use crate::limits::MAX_OUTPUT_SCHEMA_BYTES;
use halter::HalterError;
use halter_protocol::ResponseSchema;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads a schema and checks that it is one.
pub fn read(path: &Path) -> Result<ResponseSchema, Failure> {
    let name = path.display();
    let unreadable = |error| file_problem("read", path, &error);
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_OUTPUT_SCHEMA_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    if text.len() as u64 > MAX_OUTPUT_SCHEMA_BYTES {
        return Err(usage(
            format!("the schema in {name} is longer than {MAX_OUTPUT_SCHEMA_BYTES} bytes"),
            "ask for less in one answer",
        ));
    }
    let schema = serde_json::from_str(&text).map_err(|error| {
        usage(
            format!("{name} is not JSON: {error}"),
            "write the schema as JSON",
        )
    })?;
    let schema = ResponseSchema::new(schema);
    halter_runtime::check_response_schema(&schema).map_err(HalterError::from)?;
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("schema.json");
        let sized = |bytes: u64| {
            let padding = " ".repeat(bytes as usize - 2);
            std::fs::write(&path, format!("{{{padding}}}")).unwrap();
            read(&path)
        };
        assert!(sized(MAX_OUTPUT_SCHEMA_BYTES).is_ok());
        assert!(sized(MAX_OUTPUT_SCHEMA_BYTES + 1).is_err());
    }
}
