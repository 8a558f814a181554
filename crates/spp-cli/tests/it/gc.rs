//! `spp gc`. What it removes is tried where something can be left behind (`providers/docker/tests`).

use crate::support::{Place, check};

#[test]
fn where_nothing_is_left_behind_that_is_said() {
    let place = Place::new();
    check(
        &place.spp(&["--location", "local", "gc"]),
        0,
        "nothing was left behind\n",
    );
    let ended = place.spp(&["--location", "local", "--json", "gc", "--dry-run"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let object = ended.json();
    assert_eq!(object["dry_run"], true);
    assert_eq!(object["locations"][0]["location"], "local");
    assert_eq!(object["locations"][0]["sandboxes"], serde_json::json!([]));
}

#[test]
fn a_location_that_cannot_be_asked_is_told_and_fails_only_if_it_was_named() {
    let place = Place::new();
    place.configure("[sandbox.providers.box]\ncommand = '/nowhere/provider'\n");
    let ended = place.spp(&["gc"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let text = ended.stdout();
    assert!(text.contains("box: could not be looked at: "), "{text}");
    assert!(text.contains("nothing was left behind elsewhere"), "{text}");
    let ended = place.spp(&["--location", "box", "gc", "--json"]);
    assert_eq!(ended.code, Some(1));
    let problem = ended.json()["locations"][0]["problem"].clone();
    let problem = problem.as_str().expect("a sentence").to_owned();
    assert!(problem.contains("/nowhere/provider"), "{problem}");
}
