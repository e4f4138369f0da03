//! `scripts/guest`, with programs that play a machine with one kernel.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn program(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A copy of the script in a project of its own, with tests of these names.
fn project(root: &Path, tests: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/guest");
    let script = fs::read_to_string(script).unwrap();
    fs::create_dir_all(root.join("scripts")).unwrap();
    fs::write(root.join("scripts/guest"), script).unwrap();
    program(&root.join("target/debug/halter"), "true");
    program(
        &root.join("tests"),
        &format!("printf '%s: test\\n' {tests}"),
    );
    let built = root.join("tests");
    let line = format!(
        "echo '{{\"kind\":[\"test\"],\"executable\":\"{}\"}}'",
        built.display()
    );
    program(&root.join("bin/cargo"), &line);
    program(&root.join("bin/uname"), "echo x86_64");
    program(&root.join("bin/apt-cache"), "false");
    program(&root.join("bin/apt-get"), "false");
    // A guest in which all is well.
    let guest = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored'\n\
                 for one; do case $one in file:*/status) echo 0 >\"${one#file:}\" ;; esac; done";
    program(&root.join("bin/qemu-system-x86_64"), guest);
    let kernel = root.join("cache/linux-image-6.12-amd64");
    program(&kernel.join("busybox"), "cat >/dev/null");
    fs::create_dir_all(kernel.join("modules")).unwrap();
    fs::write(kernel.join("kernel"), "").unwrap();
}

fn run(root: &Path, words: &[&str]) -> (bool, String) {
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("bash")
        .arg(root.join("scripts/guest"))
        .args(words)
        .env("PATH", format!("{}:{path}", root.join("bin").display()))
        .env("GUEST_CACHE", root.join("cache"))
        .env_remove("GUEST_KERNEL")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), said)
}

const ALL: &str = "contained::a sandbox::a sandbox_places::a isolation::a";

#[test]
fn a_kernel_that_cannot_be_fetched_does_not_end_the_tests_on_others() {
    let directory = tempfile::tempdir().unwrap();
    project(directory.path(), ALL);
    let (passed, said) = run(directory.path(), &["kernels"]);
    assert!(passed, "{said}");
    let skipped = "skipped: needs the kernel linux-image-amd64 (no package linux-image-amd64)";
    assert_eq!(said.matches(skipped).count(), 2, "{said}");
    assert_eq!(said.matches("\n== ").count(), 3, "{said}");
    assert!(said.contains("guest: 6 passed, 0 failed"), "{said}");
}

#[test]
fn a_filter_without_a_test_is_named() {
    let directory = tempfile::tempdir().unwrap();
    project(directory.path(), "contained::a sandbox::a isolation::a");
    let (passed, said) = run(directory.path(), &["kernels"]);
    assert!(!passed, "{said}");
    assert!(said.contains("begins with sandbox_"), "{said}");
}
