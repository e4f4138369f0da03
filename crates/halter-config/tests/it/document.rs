//! Bad files: each error has its place and its remedy.

use halter_config::limits::MAX_CONFIG_FILE_BYTES;

use crate::support::{OFFLINE, World, error_of, load_text, place};

#[tokio::test]
async fn an_unknown_key_has_its_place_and_a_suggestion() {
    let error = error_of(format!("{OFFLINE}[policy.shell]\n  alow = [\"git\"]\n")).await;
    assert_eq!(error.code(), "config_unknown_key");
    assert_eq!(place(&error), (6, 3));
    assert_eq!(error.problem(), "unknown key `policy.shell.alow`");
    assert_eq!(error.hint().unwrap(), "did you mean `allow`?");
    assert!(error.to_string().ends_with(
        "explicit/halter.toml:6:3: unknown key `policy.shell.alow`: did you mean `allow`?"
    ));
}

#[tokio::test]
async fn an_unknown_table_has_its_place_and_a_suggestion() {
    let error = error_of(format!("{OFFLINE}\n[polcy.shell]\nenabled = true\n")).await;
    assert_eq!(place(&error), (6, 2));
    assert_eq!(error.hint().unwrap(), "did you mean `policy`?");

    let error = error_of("version = 1\n[models.medium]\nprovider = \"offline\"\n").await;
    assert_eq!(place(&error), (2, 9));
    assert_eq!(
        error.hint().unwrap(),
        "known keys here: default, small, subagent"
    );
}

#[tokio::test]
async fn a_key_in_the_wrong_table_is_sent_home() {
    let error = error_of(format!("{OFFLINE}[tools]\ntimeout_secs = 3\n")).await;
    assert_eq!(
        error.hint().unwrap(),
        "did you mean `policy.shell.timeout_secs`?"
    );
}

#[tokio::test]
async fn the_first_of_several_errors_in_the_text_is_reported() {
    let error = error_of("version = 1\nzebra = 1\napple = 1\n").await;
    assert_eq!(place(&error), (2, 1));
}

#[tokio::test]
async fn left_out_features_are_unknown_keys() {
    for text in [
        "[models.model_judge]\nmode = \"one_shot\"\n",
        "[providers.openai.oauth]\nclient_id = \"x\"\n",
    ] {
        let error = error_of(format!("{OFFLINE}{text}")).await;
        assert_eq!(error.code(), "config_unknown_key", "{text}");
    }
}

#[tokio::test]
async fn values_that_are_refused() {
    for (text, line, column, problem, hint) in [
        (
            "[policy]\nmax_read_bytes = 0\n",
            6,
            18,
            "`policy.max_read_bytes` is 0, less than 1",
            "write a number from 1 on",
        ),
        (
            "[policy]\nmax_read_bytes = -5\n",
            6,
            18,
            "`policy.max_read_bytes` is -5, less than 1",
            "write a number from 1 on",
        ),
        (
            "[policy.shell]\ntimeout_secs = 604801\n",
            6,
            16,
            "`policy.shell.timeout_secs` is 604801, more than 604800",
            "write a number from 1 to 604800",
        ),
        (
            "[policy]\nmax_read_bytes = \"1\"\n",
            6,
            18,
            "`policy.max_read_bytes` takes a whole number, found a string",
            "write a whole number",
        ),
        (
            "[policy]\nmax_read_bytes = 1.5\n",
            6,
            18,
            "`policy.max_read_bytes` takes a whole number, found a decimal number",
            "write a whole number",
        ),
        (
            "[policy.shell]\nenabled = \"yes\"\n",
            6,
            11,
            "`policy.shell.enabled` takes true or false, found a string",
            "write true or false",
        ),
        (
            "[policy.shell]\nallow = [\"git\", 7]\n",
            6,
            17,
            "`policy.shell.allow[1]` takes a string, found a whole number",
            "write a string",
        ),
        (
            "[policy.shell]\nallow = \"git\"\n",
            6,
            9,
            "`policy.shell.allow` takes a list of strings, found a string",
            "write a list of strings",
        ),
        (
            "[tools]\nenabled = [\" \"]\n",
            6,
            12,
            "`tools.enabled[0]` is blank",
            "write a name, or leave it out",
        ),
        (
            "[providers.openai]\ntemperature = 2.5\n",
            6,
            15,
            "`providers.openai.temperature` is 2.5, outside 0 to 2",
            "write a number from 0 to 2",
        ),
        (
            "[providers.openai]\ntemperature = nan\n",
            6,
            15,
            "`providers.openai.temperature` is not a number that can be used",
            "write a finite number of at most 63 bits",
        ),
        (
            "[providers.openai]\nbase_url = \"api.example.com\"\n",
            6,
            12,
            "`providers.openai.base_url` is not a web address",
            "write one that starts with https:// or http://",
        ),
        (
            "[providers.openai.headers]\n\"bad name\" = \"x\"\n",
            6,
            1,
            "`providers.openai.headers.\"bad name\"` is not the name of a request header",
            "use letters, digits and hyphens",
        ),
        (
            "[models.small]\nprovider = \"offline\"\n",
            6,
            1,
            "`models.small.model` is missing",
            "add model to [models.small]",
        ),
        (
            "[models.small]\nprovider = \"offline\"\nmodel = \"m\"\ntokens_per_minute = 0\n",
            8,
            21,
            "`models.small.tokens_per_minute` is 0, less than 1",
            "write a number from 1 on",
        ),
        (
            "[models.small]\nprovider = \"offline\"\nmodel = \"m\"\nreasoning = \"hihg\"\n",
            8,
            13,
            "`models.small.reasoning` does not take \"hihg\"",
            "did you mean `high`?",
        ),
        (
            "[context]\ncompaction_threshold = 80000\npre_compaction_target = 80000\n",
            7,
            1,
            "`context.pre_compaction_target` is 80000, not less than context.compaction_threshold, which is 80000",
            "set both, the target below the threshold",
        ),
        (
            "[sessions]\nsqlite_path = \"x.db\"\n",
            6,
            1,
            "`sessions.sqlite_path` is set, but sessions are not kept in SQLite",
            "set sessions.backend = \"sqlite\", or take the path out",
        ),
        (
            "[exec]\nsocket = \"trl.sock\"\n",
            6,
            1,
            "`exec.socket` is set, but no runtime runs the commands",
            "set exec.backend = \"terminal-runtime\", or take the line out",
        ),
        (
            "[exec]\nbackend = \"terminal-runtime\"\nmounts = [\"/opt\"]\n",
            7,
            1,
            "`exec.mounts` is set, but commands do not run in containers",
            "set exec.container, or take the line out",
        ),
        (
            "[exec]\nbackend = \"terminal-runtime\"\nsocket = \"trl.sock\"\nurl = \"https://a.example\"\n",
            8,
            1,
            "`exec.url` is set, and exec.socket as well",
            "name the runtime by one of them",
        ),
        (
            "[policy.network]\nallowed_loopback = [{ host = \"localhost\", prot = 1 }]\n",
            6,
            21,
            "`policy.network.allowed_loopback[0]` is not a service: unknown field `prot`, expected `host` or `port`",
            "write { host = \"localhost\" } or { host = \"localhost\", port = 8080 }",
        ),
        (
            "[policy.network]\nallowed_loopback = []\nallowed_loopback_services = []\n",
            7,
            1,
            "`policy.network.allowed_loopback_services` is another spelling of `policy.network.allowed_loopback`",
            "keep one of the two",
        ),
        (
            "[resilience.request_retry]\nmax_attempts = 101\n",
            6,
            16,
            "`resilience.request_retry.max_attempts` is 101, more than 100",
            "write a number from 1 to 100",
        ),
        (
            "[runtime]\ntraces_dir = 2026-01-01\n",
            6,
            14,
            "`runtime.traces_dir` takes a string, found a date",
            "write a string",
        ),
    ] {
        let error = error_of(format!("{OFFLINE}{text}")).await;
        assert_eq!(error.problem(), problem, "{text}");
        assert_eq!(error.hint().unwrap(), hint, "{text}");
        assert_eq!(place(&error), (line, column), "{text}");
    }
}

#[tokio::test]
async fn a_table_cannot_be_a_value() {
    let error = error_of("tools = 3\nversion = 1\n").await;
    assert_eq!(
        error.problem(),
        "`tools` takes a table, found a whole number"
    );
    assert_eq!(place(&error), (1, 9));
}

#[tokio::test]
async fn the_version_is_required_and_must_be_known() {
    let error = error_of("[models.default]\nprovider = \"offline\"\nmodel = \"m\"\n").await;
    assert_eq!(error.problem(), "`version` is missing");
    assert_eq!(error.hint().unwrap(), "start the file with version = 1");
    assert_eq!(place(&error), (1, 1));

    let error = error_of("version = 2\n").await;
    assert_eq!(place(&error), (1, 11));
    assert_eq!(error.hint().unwrap(), "write version = 1");
    assert_eq!(
        error_of("version = \"1\"\n").await.code(),
        "config_wrong_type"
    );
    assert_eq!(error_of("").await.code(), "config_invalid_value");
}

#[tokio::test]
async fn malformed_toml_has_its_place() {
    for (text, line) in [
        ("version = 1\n[models.default\n", 2),
        ("version = 1\nversion = 1\n", 2),
        ("version = \n", 1),
        ("version = 1\n[tools]\nenabled = [\"a\"\n", 3),
        ("version = 1\n[tools]\n[tools]\n", 3),
    ] {
        let error = error_of(text).await;
        assert_eq!(error.code(), "config_syntax", "{text}");
        let (found, _) = place(&error);
        assert!(found == line || found == line + 1, "{text}: {error}");
    }
}

#[tokio::test]
async fn columns_count_characters_and_bytes_that_are_not_text_are_found() {
    let error = error_of("version = 1\n[tools]\n\"é\" = 1\n").await;
    assert_eq!(place(&error), (3, 1));
    let error = error_of("version = 1\ntools = { \"éé\" = 1 }\n").await;
    assert_eq!(place(&error), (2, 11));

    let error = error_of(b"version = 1\n# caf\xe9\n").await;
    assert_eq!(error.code(), "config_not_utf8");
    assert_eq!(place(&error), (2, 6));
    assert!(error.to_string().contains("save the file as UTF-8"));
}

#[tokio::test]
async fn a_byte_order_mark_and_dos_lines_are_fine() {
    let text = format!("\u{feff}{}", OFFLINE.replace('\n', "\r\n"));
    load_text(&text).await.unwrap();
    let error = error_of(format!("{text}oops = 1\r\n")).await;
    assert_eq!(place(&error), (5, 1));
}

#[tokio::test]
async fn a_file_is_read_up_to_its_limit() {
    let comment = |bytes: u64| {
        let fill = usize::try_from(bytes).unwrap() - OFFLINE.len() - 1;
        format!("{OFFLINE}#{}", "x".repeat(fill))
    };
    load_text(comment(MAX_CONFIG_FILE_BYTES)).await.unwrap();
    let error = error_of(comment(MAX_CONFIG_FILE_BYTES + 1)).await;
    assert_eq!(error.code(), "config_too_large");
}

#[tokio::test]
async fn a_pipe_or_directory_found_in_a_project_is_refused_at_once() {
    let world = World::new();
    let path = world.path("project/halter.toml");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(world.load().await.unwrap_err().code(), "config_not_a_file");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    // What a sandbox puts where no command may make the file.
    world.load().await.unwrap();
    std::fs::write(path.join("file"), "").unwrap();
    assert_eq!(world.load().await.unwrap_err().code(), "config_not_a_file");
}

#[tokio::test]
async fn deep_nesting_is_an_error_not_a_crash() {
    let text = format!("version = {}1{}\n", "[".repeat(50_000), "]".repeat(50_000));
    assert_eq!(error_of(text).await.code(), "config_syntax");
    let text = format!("{} = 1\n", vec!["a"; 20_000].join("."));
    let code = error_of(text).await.code();
    assert!(
        code == "config_syntax" || code == "config_unknown_key",
        "{code}"
    );
}

#[tokio::test]
async fn a_key_of_an_older_version_loads_with_a_warning() {
    let text = format!("{OFFLINE}[policy.shell]\nmode = \"strict\"\ntimeout_secs = 5\n");
    let loaded = load_text(&text).await.unwrap();
    assert_eq!(loaded.config.policy.shell.timeout_secs, 5);
    let [warning] = loaded.warnings.as_slice() else {
        panic!("{:?}", loaded.warnings);
    };
    assert_eq!(warning.code(), "config_retired_key");
    let said = warning.to_string();
    let expected = "explicit/halter.toml:6:1: `policy.shell.mode` has no effect: there is one \
                    way to judge command lines now; remove the line";
    assert!(said.ends_with(expected), "{said}");
}
