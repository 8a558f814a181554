//! `spp doctor`.

use crate::support::{Place, check};

#[test]
fn a_sound_machine_is_told_as_one() {
    let place = Place::new();
    let ended = place.spp(&["doctor"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout(), ended.stderr);
    let text = ended.stdout();
    assert!(
        text.contains("location in use: local (from the default)"),
        "{text}"
    );
    assert!(text.contains("\nlocal, provider "), "{text}");
    assert!(text.contains(": works ("), "{text}");
}

#[test]
fn a_broken_location_is_told_and_fails_only_if_it_is_in_use() {
    let place = Place::new();
    place.configure("[sandbox.providers.box]\ncommand = '/nowhere/provider'\n");
    let ended = place.spp(&["doctor", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let object = ended.json();
    let locations = object["locations"].as_array().expect("a list");
    let find = |name: &str| {
        locations
            .iter()
            .find(|location| location["name"] == name)
            .unwrap_or_else(|| panic!("{name} is missing of {object}"))
    };
    assert_eq!(find("local")["works"], true);
    assert_eq!(find("local")["selected"], true);
    assert_eq!(find("box")["works"], false);
    let problem = find("box")["problem"].as_str().expect("a sentence");
    assert!(problem.contains("/nowhere/provider"), "{problem}");

    let ended = place.spp(&["doctor", "--location", "box"]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stdout().contains("box: does not work: "),
        "{}",
        ended.stdout()
    );
}

#[test]
fn a_configuration_that_cannot_be_read_is_the_problem() {
    let place = Place::new();
    place.configure("[sandbox\n");
    let ended = place.spp(&["doctor"]);
    check(&ended, 1, "");
    assert!(ended.stderr.contains("config.toml:1:"), "{}", ended.stderr);
}

#[test]
fn what_a_provider_says_cannot_command_the_terminal() {
    // It clears the screen in an error, in a note, and in its name.
    let script = r#"
        while IFS= read -r line; do
            id=${line#*'"id":'}
            id=${id%%[,\}]*}
            say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
            case $line in
                *'"initialize"'*) say '"result":{"protocol":{"major":1},"provider":{"name":"\u001b[2Jx","version":"1"},"instance":"1"}' ;;
                *'"acquire"'*)
                    sandbox=${line#*'"sandbox":"'}
                    say '"result":{"descriptor":{"sandbox":"'"${sandbox%%\"*}"'","generation":1,"location":"l","provider":"p","platform":{"os":"linux","arch":"x86_64"},"root":"/","network":"open","notes":["\u001b[2Jy"]}}' ;;
                *'"exec"'*) say '"error":{"code":1206,"message":"\u001b[2Jz","data":{"kind":"io"}}' ;;
                *) say '"result":{"existed":true}' ;;
            esac
        done"#;
    let place = Place::new();
    place.put("provider", script);
    let provider = place.path("provider");
    place.configure(&format!(
        "[sandbox.providers.box]\ncommand = '/bin/sh'\nargs = ['{}']\n",
        provider.display()
    ));
    for args in [
        &["doctor", "--location", "box"][..],
        &["run", "--location", "box", "--", "true"],
    ] {
        let ended = place.spp(args);
        let text = ended.stdout() + &ended.stderr;
        assert!(text.contains("\\u{1b}[2Jz"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
