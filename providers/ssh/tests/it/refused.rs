//! What cannot be had is refused, with the reason and what to do.

use std::path::Path;

use sandbox_core::{Mount, MountAccess, Network, Policy, Restriction, SandboxPath};
use sandbox_host::OpenRequest;

use super::support::{Scratch, has, provider, refused};

async fn refusal(machine: &str) -> String {
    let scratch = Scratch::new();
    let host = scratch.host(machine);
    refused(&host, OpenRequest::default()).await
}

async fn of_options(options: &str) -> String {
    let scratch = Scratch::new();
    let host = scratch.host_by(&provider(), options);
    refused(&host, OpenRequest::default()).await
}

async fn of_policy(policy: Policy) -> String {
    let scratch = Scratch::new();
    let host = scratch.host("spp-user");
    let request = OpenRequest {
        policy: Some(policy),
        ..OpenRequest::default()
    };
    refused(&host, request).await
}

#[tokio::test]
async fn a_host_key_that_is_not_known_or_not_the_known_one_is_told_with_the_command_to_run() {
    has(
        &refusal("spp-unknown").await,
        &["not known here", "ED25519", "`ssh spp-unknown`"],
    );
    has(
        &refusal("spp-changed").await,
        &[
            "another one than is known",
            "ssh-keygen -f",
            "-R \"[127.0.0.1]:",
        ],
    );
    has(
        &refusal("spp-behind-unknown").await,
        &[
            "a machine on the way to spp-behind-unknown",
            "not known here",
        ],
    );
}

#[tokio::test]
async fn who_is_not_let_in_where_nobody_answers_and_what_has_no_name_is_told_apart() {
    has(
        &refusal("spp-stranger").await,
        &[
            "does not accept who you are",
            "Permission denied",
            "ssh-add",
        ],
    );
    has(
        &refusal("spp-closed").await,
        &["nothing answers at spp-closed", "Connection refused"],
    );
    has(
        &refusal("spp-nameless").await,
        &["no machine of the name spp-nameless", "HostName"],
    );
}

#[tokio::test]
async fn a_server_that_never_greets_is_not_waited_for_ever() {
    let scratch = Scratch::new();
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = silent.local_addr().expect("its address").port();
    let config = scratch.path().join("ssh_config");
    std::fs::write(
        &config,
        format!("Host silent\n  HostName 127.0.0.1\n  Port {port}\n"),
    )
    .expect("a file");
    let options = format!(
        "host = 'silent'\nroot = '/'\nconfig = '{}'\n",
        config.display()
    );
    has(
        &of_options(&options).await,
        &["silent cannot be reached", "timed out during banner"],
    );
}

#[tokio::test]
async fn a_configuration_that_makes_no_sense_is_told() {
    let scratch = Scratch::new();
    let config = scratch.path().join("ssh_config");
    std::fs::write(&config, "NoSuchOption yes\n").expect("a file");
    let options = format!("host = 'x'\nroot = '/'\nconfig = '{}'\n", config.display());
    has(&of_options(&options).await, &["nosuchoption", "ssh -G x"]);
    let missing = Path::new("/nothing/is/here");
    let options = format!("host = 'x'\nroot = '/'\nconfig = '{}'\n", missing.display());
    has(
        &of_options(&options).await,
        &["/nothing/is/here", "cannot be used"],
    );
}

#[tokio::test]
async fn the_directory_has_to_be_named_and_to_be_there() {
    has(
        &of_options("host = 'spp-user'\n").await,
        &["root = \"~/project\"", "spp-user"],
    );
    let scratch = Scratch::new();
    let host = scratch.host_with("spp-user", "root = '~/no/such'\n");
    has(
        &refused(&host, OpenRequest::default()).await,
        &["no/such", "not found"],
    );
    let host = scratch.host_with("spp-user", "root = 'caller'\n");
    has(
        &refused(&host, OpenRequest::default()).await,
        &["no absolute directory was named", "`root`"],
    );
}

#[tokio::test]
async fn no_machine_is_an_option() {
    for host in ["-oProxyCommand=touch /tmp/owned", "a;b", "$(x)"] {
        let options = format!("host = '{host}'\nroot = '/'\n");
        has(&of_options(&options).await, &["`host` is", "Host"]);
    }
}

#[tokio::test]
async fn a_policy_that_an_account_elsewhere_cannot_keep_is_refused() {
    let origins = Policy {
        network: Some(Network::Allow(vec!["https://example.org:443".into()])),
        ..Policy::default()
    };
    has(&of_policy(origins).await, &["origins"]);
    let mounts = Policy {
        mounts: vec![Mount {
            host: "/usr".into(),
            sandbox: SandboxPath::parse("/usr").expect("valid"),
            access: MountAccess::ReadOnly,
        }],
        ..Policy::default()
    };
    has(&of_policy(mounts).await, &["another one"]);
    let secrets = Policy {
        require: [Restriction::SecretsHidden].into(),
        ..Policy::default()
    };
    has(&of_policy(secrets).await, &["secrets-hidden"]);
}
