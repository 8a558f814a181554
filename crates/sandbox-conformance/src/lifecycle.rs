//! Checks of how sandboxes come, what they say of themselves, and how they go.

use std::time::Duration;

use sandbox_core::file::ReadRequest;
use sandbox_core::process::{SpawnRequest, SpawnStdin};
use sandbox_core::{
    Closed, Disposition, Effect, EnforcedBy, EnvChange, Error, ErrorKind, Grade, Limit, LimitKind,
    Policy, Probe, ReleaseReceipt, Restriction, Strength,
};

use crate::check::{Failure, Verdict};
use crate::harness::{Place, fresh_id};
use crate::support::{path, proc_id, refused, soon};

async fn release(place: &Place, disposition: Disposition) -> Result<ReleaseReceipt, Error> {
    place
        .provider
        .release(&place.ctx(), &place.spec.id, disposition)
        .await
}

/// Another sandbox on the same workspace, with this policy.
async fn beside(place: &Place, policy: Policy) -> Result<Place, Error> {
    let mut spec = place.spec.clone();
    spec.id = fresh_id();
    spec.policy = policy;
    let sandbox = place.provider.acquire(&place.ctx(), &spec).await?;
    Ok(Place {
        provider: place.provider.clone(),
        spec,
        sandbox,
        outside: None,
    })
}

pub(crate) async fn a_sandbox_says_what_it_is(place: &Place) -> Verdict {
    let descriptor = place.sandbox.descriptor();
    let info = place.provider.info();
    ensure_eq!(descriptor.id, place.spec.id, "id");
    ensure_eq!(descriptor.provider, info.name, "name of the provider");
    ensure!(
        descriptor.root.is_absolute(),
        "the root is {}",
        descriptor.root
    );
    ensure!(
        !descriptor.platform.os.is_empty() && !descriptor.location.is_empty(),
        "platform {:?} and location {:?}",
        descriptor.platform,
        descriptor.location
    );
    let machine = place.script("uname -m").await?;
    ensure_eq!(
        descriptor.platform.arch.replace("arm64", "aarch64"),
        machine.trim().replace("arm64", "aarch64"),
        "architecture"
    );
    for capability in descriptor.capabilities.iter() {
        ensure!(
            info.capabilities.has(capability),
            "the sandbox declares {capability:?} and its provider does not"
        );
    }
    Ok(())
}

pub(crate) async fn the_same_spec_is_the_same_sandbox(place: &Place) -> Verdict {
    place.put("file", "kept").await?;
    let again = place.provider.acquire(&place.ctx(), &place.spec).await?;
    ensure_eq!(again.descriptor(), place.sandbox.descriptor(), "descriptor");
    let read = again
        .read(&place.ctx(), ReadRequest::new(path("file")))
        .await?;
    ensure_eq!(read.bytes, "kept", "content as the second handle sees it");
    Ok(())
}

pub(crate) async fn another_spec_of_the_same_id_is_a_conflict(place: &Place) -> Verdict {
    let mut spec = place.spec.clone();
    spec.labels.insert("other".to_owned(), "spec".to_owned());
    refused(
        place.provider.acquire(&place.ctx(), &spec).await,
        ErrorKind::Conflict,
        "another spec of the same id",
    )?;
    ensure_eq!(
        place.script("echo still here").await?,
        "still here\n",
        "the first sandbox"
    );
    Ok(())
}

pub(crate) async fn the_environment_of_a_policy_reaches_every_process(place: &Place) -> Verdict {
    let mut policy = place.spec.policy.clone();
    policy.env.changes = vec![
        EnvChange::set("FROM_POLICY", "a b"),
        EnvChange::set("REPLACED", "by policy"),
    ];
    let other = beside(place, policy).await?;
    let process = other
        .line(r#"printf '%s,%s' "$FROM_POLICY" "$REPLACED""#)?
        .env("REPLACED", "by call");
    let printed = other.run(process).await?.stdout.to_text();
    ensure_eq!(printed, "a b,by call", "variables as the process saw them");
    release(&other, Disposition::Keep).await?;
    Ok(())
}

/// What cannot be had is refused, and never a weaker place given in silence.
pub(crate) async fn a_restriction_that_does_not_hold_refuses(place: &Place) -> Verdict {
    let descriptor = place.sandbox.descriptor();
    for restriction in Restriction::ALL {
        let mut policy = place.spec.policy.clone();
        policy.require.insert(restriction);
        match beside(place, policy).await {
            Ok(other) => {
                ensure_eq!(
                    other.sandbox.descriptor().guarantees.get(&restriction),
                    Some(&Grade::Full),
                    "grade of {}, which was required",
                    restriction.name()
                );
                release(&other, Disposition::Keep).await?;
            }
            unmet => {
                let error = refused(unmet, ErrorKind::PolicyUnmet, restriction.name())?;
                ensure!(
                    // In messages a name may be spelled as on the wire.
                    error
                        .to_string()
                        .replace('_', "-")
                        .contains(restriction.name()),
                    "the refusal does not name {}: {error}",
                    restriction.name()
                );
                ensure!(
                    descriptor.guarantees.get(&restriction) != Some(&Grade::Full),
                    "{} holds anyway, and requiring it is refused",
                    restriction.name()
                );
            }
        }
    }
    Ok(())
}

pub(crate) async fn a_limit_that_is_required_is_enforced_or_refused(place: &Place) -> Verdict {
    for kind in LimitKind::ALL {
        for strength in [Strength::Required, Strength::BestEffort] {
            let limit = Limit {
                value: 1 << 30,
                strength,
            };
            let mut policy = place.spec.policy.clone();
            policy.limits.insert(kind, limit);
            match beside(place, policy).await {
                Ok(other) => {
                    let report = other.sandbox.descriptor().limits.get(&kind).copied();
                    ensure!(
                        report.is_some_and(|report| report.value == limit.value
                            && (strength == Strength::BestEffort
                                || report.enforced_by != EnforcedBy::None)),
                        "the limit {} is {strength:?}, and what became of it is {report:?}",
                        kind.name()
                    );
                    release(&other, Disposition::Keep).await?;
                }
                unmet => {
                    ensure!(
                        strength == Strength::Required,
                        "the limit {} was refused although best effort is enough",
                        kind.name()
                    );
                    refused(unmet, ErrorKind::PolicyUnmet, kind.name())?;
                }
            }
        }
    }
    Ok(())
}

pub(crate) async fn a_release_says_whether_there_was_a_sandbox(place: &Place) -> Verdict {
    for existed in [true, false, false] {
        let receipt = release(place, Disposition::Keep).await?;
        ensure_eq!(receipt.existed, existed, "whether there was a sandbox");
    }
    Ok(())
}

pub(crate) async fn a_release_ends_what_runs(place: &Place) -> Verdict {
    let line = "(setsid sh -c 'while :; do echo x >>beats; sleep 0.02; done' &); sleep 300";
    let request = SpawnRequest::new(proc_id("heart"), place.line(line)?);
    place.sandbox.spawn(&place.ctx(), request).await?;
    place.appears("beats").await?;
    release(place, Disposition::Keep).await?;
    let other = beside(place, place.spec.policy.clone()).await?;
    let before = other.content("beats").await?.len();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let after = other.content("beats").await?.len();
    ensure_eq!(after, before, "beats after the release");
    release(&other, Disposition::Keep).await?;
    Ok(())
}

pub(crate) async fn a_verb_after_a_release_says_so(place: &Place) -> Verdict {
    place.put("file", "content").await?;
    release(place, Disposition::Keep).await?;
    let ctx = place.ctx();
    let read = place.sandbox.read(&ctx, ReadRequest::new(path("file")));
    let Err(error) = soon("a read after the release", read).await? else {
        return Err(Failure::new("a file was read after the release"));
    };
    ensure!(
        matches!(error.kind(), ErrorKind::Lost | ErrorKind::SandboxNotFound)
            && error.effect() == Effect::None,
        "a read after the release failed in the wrong way (effect {:?}): {error}",
        error.effect()
    );
    let run = place.run(place.line("echo ran >ran")?);
    ensure!(
        soon("a run after the release", run).await?.is_err(),
        "something ran after the release"
    );
    Ok(())
}

pub(crate) async fn a_release_closes_the_handle(place: &Place) -> Verdict {
    ensure!(
        tokio::time::timeout(Duration::from_millis(50), place.sandbox.closed())
            .await
            .is_err(),
        "a sandbox that is open says that it is closed"
    );
    release(place, Disposition::Keep).await?;
    let closed = soon("the end of the handle", place.sandbox.closed()).await?;
    ensure_eq!(closed, Closed::Released, "why the handle ended");
    Ok(())
}

pub(crate) async fn a_workspace_that_was_there_is_never_removed(place: &Place) -> Verdict {
    place.put("directory/file", "kept").await?;
    release(place, Disposition::Destroy).await?;
    let file = place.outside()?.workspace().join("directory/file");
    ensure_eq!(
        std::fs::read_to_string(file).ok().as_deref(),
        Some("kept"),
        "a file of the workspace after the release"
    );
    Ok(())
}

pub(crate) async fn a_sandbox_is_listed_while_it_is_there(place: &Place) -> Verdict {
    let listed = async || {
        let entries = place.provider.list(&place.ctx(), None).await?;
        Ok::<_, Failure>(
            entries
                .iter()
                .any(|entry| entry.id == place.spec.id && entry.running),
        )
    };
    ensure!(listed().await?, "a sandbox that is there is not listed");
    release(place, Disposition::Destroy).await?;
    ensure!(!listed().await?, "a sandbox that was released is listed");
    Ok(())
}

pub(crate) async fn a_probe_says_whether_a_spec_works(place: &Place) -> Verdict {
    let mut spec = place.spec.clone();
    spec.id = fresh_id();
    let probe = place.provider.probe(&place.ctx(), &spec).await?;
    ensure!(
        matches!(probe, Probe::Works { .. }),
        "the spec of an open sandbox: {probe:?}"
    );
    spec.options = Some(r#"{"no_provider_has_this_option": true}"#.to_owned());
    spec.template = Some("no-provider-has-this-template".to_owned());
    let probe = place.provider.probe(&place.ctx(), &spec).await?;
    let Probe::Fails { reason, remedy } = probe else {
        return Err(Failure::new(
            "a spec with a template that nobody has is said to work",
        ));
    };
    ensure!(
        !reason.is_empty() && !remedy.is_empty(),
        "a probe that fails gives the reason {reason:?} and the remedy {remedy:?}"
    );
    Ok(())
}

pub(crate) async fn two_sandboxes_share_a_workspace_and_no_process(place: &Place) -> Verdict {
    place.spawn("mine", "sleep 300", SpawnStdin::Null).await?;
    let other = beside(place, place.spec.policy.clone()).await?;
    place.put("file", "content").await?;
    ensure_eq!(
        other.content("file").await?,
        "content",
        "the shared workspace"
    );
    let result = other.kill("mine").await;
    ensure!(
        result.is_err(),
        "a process of one sandbox was stopped through another"
    );
    // The other has ids of its own, and its end is not the first one's.
    other.spawn("mine", "sleep 300", SpawnStdin::Null).await?;
    release(&other, Disposition::Keep).await?;
    ensure_eq!(
        place.script("echo still here").await?,
        "still here\n",
        "the first sandbox"
    );
    Ok(())
}
