//! Servers and accounts that are difficult: it works, or it says exactly what is in the way.

use sandbox_host::OpenRequest;

use super::support::{Scratch, end, has, open, over_there, refused, sh};

/// The engine runs there, in the account's home and as the account; where it was put is returned.
async fn works(machine: &str) -> String {
    let scratch = Scratch::new();
    let host = scratch.host(machine);
    let opened = open(&host).await;
    // The one who asks has the server's login as its name, and the engine's executable is its parent's parent.
    let said = sh(
        &*opened.sandbox,
        "echo \"$USER\"; [ \"$PWD\" = \"$HOME\" ] && echo home",
    )
    .await;
    assert_eq!(said, format!("{machine}\nhome\n"), "{machine}");
    let found = over_there(
        machine,
        "ls -d $HOME/.cache/spp/engines/engine-* /var/tmp/spp-engines-*/engine-* /dev/shm/spp-engines-*/engine-*",
    );
    end(opened, &host).await;
    found
}

async fn does_not(machine: &str) -> String {
    let scratch = Scratch::new();
    let host = scratch.host(machine);
    refused(&host, OpenRequest::default()).await
}

#[tokio::test]
async fn a_server_that_allows_one_session_is_enough() {
    works("spp-one").await;
}

#[tokio::test]
async fn whatever_shell_an_account_has_it_works() {
    for machine in ["spp-user", "spp-csh", "spp-fish"] {
        works(machine).await;
    }
}

#[tokio::test]
async fn banners_and_profiles_that_print_do_not_matter() {
    works("spp-noisy").await;
}

#[tokio::test]
async fn a_profile_that_goes_on_printing_is_told() {
    let text = does_not("spp-chatter").await;
    // It may be heard before the engine answers for the first time, or after.
    let is_told = text.contains("in the background") || text.contains("broke the protocol");
    assert!(is_told, "{text}");
}

#[tokio::test]
async fn a_forced_command_that_passes_on_works_and_any_other_is_told_with_what_it_said() {
    works("spp-passed").await;
    let text = does_not("spp-gate").await;
    has(
        &text,
        &[
            "spp-gate",
            "this is a gate",
            "exit status: 7",
            "ForceCommand",
        ],
    );
    let text = does_not("spp-nologin").await;
    has(
        &text,
        &["This account is currently not available", "nologin"],
    );
}

#[tokio::test]
async fn a_home_that_cannot_be_written_or_executed_from_is_not_needed() {
    for machine in ["spp-readonly", "spp-noexec"] {
        let found = works(machine).await;
        assert!(
            found.contains("/var/tmp/spp-engines-"),
            "{machine}: {found}"
        );
        assert!(!found.contains(".cache"), "{machine}: {found}");
    }
}

#[tokio::test]
async fn the_programs_of_busybox_are_enough() {
    works("spp-busybox").await;
}

#[tokio::test]
async fn a_long_directory_for_temporary_files_does_not_matter() {
    works("spp-long").await;
}

#[tokio::test]
async fn another_system_is_refused_by_its_name() {
    let text = does_not("spp-other-system").await;
    has(&text, &["Plan9 mips", "spp-other-system", "Linux"]);
}

#[tokio::test]
async fn a_machine_behind_another_one_is_reached_as_the_configuration_has_it() {
    let scratch = Scratch::new();
    let host = scratch.host("spp-behind");
    let opened = open(&host).await;
    assert_eq!(sh(&*opened.sandbox, "echo $USER").await, "spp-user\n");
    end(opened, &host).await;
}
