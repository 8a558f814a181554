//! `spp push` and `spp pull`.

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::Place;

#[test]
fn a_directory_is_pushed_without_what_git_ignores_and_pulled_without_what_could_harm() {
    let place = Place::new();
    place.put("from/.gitignore", "target\n");
    place.put("from/target/big", "x");
    place.put("from/run", "#!/bin/sh\n");
    std::fs::set_permissions(place.path("from/run"), PermissionsExt::from_mode(0o751))
        .expect("set");
    symlink("run", place.path("from/link")).expect("made");
    symlink("/etc/hostname", place.path("from/out")).expect("made");
    let ended = place.spp(&["push", "from", "new/there"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mode = |name: &str| {
        let meta = std::fs::metadata(place.path(name)).expect("it is there");
        meta.permissions().mode() & 0o7777
    };
    assert_eq!(mode("new/there/run"), 0o751);
    assert!(!place.path("new/there/target").exists());
    let again = place.spp(&["push", "from", "new/there", "--json"]);
    assert_eq!(again.code, Some(1));
    assert_eq!(
        again.json()["error"]["kind"],
        "not_empty",
        "{}",
        again.stderr
    );

    let ended = place.spp(&["pull", "new/there", "back", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.json()["omitted"][0]["path"], "out");
    assert_eq!(mode("back/run") & 0o700, 0o700);
    assert_eq!(mode("back/run") & 0o022, 0);
    assert!(place.path("back/link").is_symlink());
    assert!(!place.path("back/out").is_symlink());
}

#[test]
fn a_pull_that_fails_leaves_nothing() {
    let place = Place::new();
    let ended = place.spp(&["pull", "no/such", "back"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("not found"), "{}", ended.stderr);
    assert!(!place.path("back").exists());
}
