use super::*;

fn rules(directory: &Path, name: &str) -> FileRulesParams {
    FileRulesParams {
        name: name.to_owned(),
        directory: escape_path(directory),
        write: vec![escape_path(directory)],
        ..FileRulesParams::default()
    }
}

fn write(rules: &FileRulesParams, path: &Path, bytes: &[u8]) -> FileWriteParams {
    FileWriteParams {
        rules: rules.clone(),
        path: escape_path(path),
        data: STANDARD.encode(bytes),
        upload: None,
        offset: 0,
        more: false,
        unchanged: None,
        new: false,
    }
}

#[test]
fn a_part_of_a_file_has_so_many_bytes_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let (files, rules) = (Files::default(), rules(&root, "a"));
    let most = vec![b'x'; FILE_CHUNK_BYTES];
    files.write(write(&rules, &root.join("f"), &most)).unwrap();
    let more = vec![b'x'; FILE_CHUNK_BYTES + 1];
    let error = files.write(write(&rules, &root.join("f"), &more));
    assert!(error.unwrap_err().message.contains("upload"));
    std::fs::write(root.join("f"), &more).unwrap();
    let read = FileReadParams {
        rules,
        path: escape_path(&root.join("f")),
        offset: 0,
        max: Some(u64::MAX),
        version: None,
    };
    let data = files.read(&read).unwrap();
    assert_eq!(STANDARD.decode(data.data).unwrap(), most);
    assert_eq!(data.file.size, more.len() as u64);
}

#[test]
fn names_are_listed_in_pages() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    for number in 0..=MAX_FILE_NAMES {
        std::fs::write(root.join(format!("{number:05}")), "").unwrap();
    }
    let mut params = FileListParams {
        rules: rules(&root, "a"),
        path: escape_path(&root),
        after: None,
        max: None,
    };
    let files = Files::default();
    let listing = files.list(&params).unwrap();
    assert_eq!(
        (listing.entries.len(), listing.more),
        (MAX_FILE_NAMES, true)
    );
    params.after = listing.entries.last().map(|last| last.name.clone());
    let listing = files.list(&params).unwrap();
    assert_eq!((listing.entries.len(), listing.more), (1, false));
}

#[test]
fn so_many_doors_are_kept_and_a_root_stays_the_directory_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap().join("root");
    std::fs::create_dir(&root).unwrap();
    let files = Files::default();
    let first = rules(&root, "first");
    let file = root.join("f");
    files.write(write(&first, &file, b"x")).unwrap();
    std::fs::rename(&root, root.with_file_name("old")).unwrap();
    std::fs::create_dir(&root).unwrap();
    let error = files.write(write(&first, &file, b"x")).unwrap_err();
    assert_eq!(error.reason.as_deref(), Some("nonexistent_root"));
    for number in 0..MAX_FILE_DOORS {
        let other = rules(&root, &number.to_string());
        files.write(write(&other, &file, b"x")).unwrap();
    }
    assert_eq!(lock(&files.doors).len(), MAX_FILE_DOORS);
    // Forgotten, it is bound anew.
    files.write(write(&first, &file, b"x")).unwrap();
}

#[test]
fn rules_are_absolute_and_a_write_has_one_condition() {
    let files = Files::default();
    let relative = rules(Path::new("here"), "a");
    let error = files
        .write(write(&relative, Path::new("/x"), b""))
        .unwrap_err();
    assert!(error.message.contains("absolute"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let rules = rules(directory.path(), "a");
    let both = FileWriteParams {
        new: true,
        unchanged: Some("00".to_owned()),
        ..write(&rules, &directory.path().join("f"), b"")
    };
    assert!(files.write(both).unwrap_err().message.contains("either"));
}

#[test]
fn a_walk_gives_so_many_names_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("a")).unwrap();
    for name in ["a/one", "a/two", ".env", ".hidden", "left", ".ignore"] {
        std::fs::write(root.join(name), "left\n").unwrap();
    }
    let walk = |max| {
        let params = FileWalkParams {
            rules: rules(&root, "a"),
            path: escape_path(&root),
            hidden: String::new(),
            max_depth: None,
            max,
        };
        let walk = Files::default().walk(&params).unwrap();
        let paths: Vec<_> = walk.entries.into_iter().map(|it| it.path).collect();
        (paths, walk.more)
    };
    let all = ["a", "a/one", "a/two"].map(str::to_owned).to_vec();
    assert_eq!(walk(None), (all.clone(), false));
    assert_eq!(walk(Some(3)), (all.clone(), false));
    assert_eq!(walk(Some(2)), (all[..2].to_vec(), true));
    assert_eq!(
        bounded(Some(u64::MAX), MAX_FILE_WALK_NAMES),
        MAX_FILE_WALK_NAMES
    );
}
