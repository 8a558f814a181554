//! `cargo spp` from end to end, which builds every executable in release: long, so run by `--all`.

use super::xtask;

#[test]
#[ignore = "builds every executable in release"]
fn spp_is_built_once_and_then_starts_without_a_word_of_ours() {
    let first = xtask(&["spp", "--", "--help"]);
    assert!(
        first.status.success(),
        "{}",
        String::from_utf8_lossy(&first.stderr)
    );

    let second = xtask(&["spp", "--help"]);
    let help = String::from_utf8_lossy(&second.stdout);
    assert!(help.contains("Usage: spp"), "{help}");
    assert_eq!(
        String::from_utf8_lossy(&second.stderr),
        "",
        "something was printed though nothing was left to build"
    );
}
