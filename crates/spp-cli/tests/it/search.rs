//! `spp glob` and `spp grep`.

use crate::support::{Place, check};

fn place() -> Place {
    let place = Place::new();
    place.put(".gitignore", "*.log\n");
    place.put("a.rs", "one\nneedle two\nthree\n");
    place.put("d/b.rs", "Needle\n");
    place.put("d/c.log", "needle\n");
    place.put(".hidden", "needle\n");
    place
}

#[test]
fn entries_are_listed_by_name_at_any_level() {
    let place = place();
    check(&place.spp(&["glob", "*.rs"]), 0, "a.rs\nd/b.rs\n");
    check(&place.spp(&["glob", "/*.rs"]), 0, "a.rs\n");
    check(&place.spp(&["glob", "d/*", "*.none"]), 0, "d/b.rs\n");
    check(
        &place.spp(&["glob", "*.log", "--no-ignore"]),
        0,
        "d/c.log\n",
    );
    check(&place.spp(&["glob", "*.none"]), 1, "");
    let ended = place.spp(&["glob", "*.rs", "--limit", "1"]);
    check(&ended, 2, "a.rs\n");
    assert!(ended.stderr.contains("not complete"), "{}", ended.stderr);
}

#[test]
fn text_is_found_as_users_of_other_tools_expect() {
    let place = place();
    check(&place.spp(&["grep", "needle"]), 0, "a.rs:2:needle two\n");
    check(
        &place.spp(&["grep", "-i", "needle"]),
        0,
        "a.rs:2:needle two\nd/b.rs:1:Needle\n",
    );
    check(
        &place.spp(&["grep", "--hidden", "^needle$"]),
        0,
        ".hidden:1:needle\n",
    );
    check(
        &place.spp(&["grep", "-C1", "needle", "a.rs"]),
        0,
        "a.rs-1-one\na.rs:2:needle two\na.rs-3-three\n",
    );
    check(&place.spp(&["grep", "-F", "needle.", "d", "a.rs"]), 1, "");
    check(&place.spp(&["grep", "-g", "*.md", "needle"]), 1, "");
    let ended = place.spp(&["grep", "a(b"]);
    check(&ended, 2, "");
    assert!(ended.stderr.contains("column 2"), "{}", ended.stderr);
    check(&place.spp(&["grep", "--", "-needle"]), 1, "");
}

#[test]
fn answers_are_json_when_asked() {
    let place = place();
    let ended = place.spp(&["grep", "--json", "needle"]);
    let answer: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(answer["files"][0]["path"], "a.rs");
    assert_eq!(answer["files"][0]["lines"][0]["matches"][0][1], 6);
    assert_eq!(answer["complete"], "complete");
    let ended = place.spp(&["glob", "--json", "*.rs"]);
    let answer: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(answer["entries"][1], "d/b.rs");
}
