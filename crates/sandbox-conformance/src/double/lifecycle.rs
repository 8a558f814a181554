//! Doubles that are wrong about how sandboxes come and go.

use std::io::Write;
use std::time::Duration;

use sandbox_core::{Closed, Disposition, Probe, ReleaseReceipt, Strength, TemplateReceipt};

use super::doubles;

/// Removes what is in a directory of this machine.
fn empty(root: &str) {
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let _ = std::fs::remove_dir_all(entry.path());
    }
}

/// Writes on, as a process would that the release did not end.
async fn beat(root: String) {
    for _ in 0..40 {
        if let Ok(mut file) = std::fs::OpenOptions::new()
            .append(true)
            .open(format!("{root}/beats"))
        {
            let _ = file.write_all(b"x\n");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

doubles! {
    a_sandbox_says_what_it_is: "a sandbox names another provider"
    descriptor(descriptor) {
        descriptor.provider = "another".to_owned();
    }

    the_same_spec_is_the_same_sandbox: "the same spec makes a new sandbox"
    acquire(honest, ctx, spec) {
        if honest.spec(&spec.id).as_ref() == Some(&spec) {
            honest.provider.release(&ctx, &spec.id, Disposition::Keep).await?;
        }
        honest.provider.acquire(&ctx, &spec).await
    }

    another_spec_of_the_same_id_is_a_conflict: "another spec of the same id is ignored"
    acquire(honest, ctx, spec) {
        let spec = honest.spec(&spec.id).unwrap_or(spec);
        honest.provider.acquire(&ctx, &spec).await
    }

    the_environment_of_a_policy_reaches_every_process: "the environment of a policy is ignored"
    acquire(honest, ctx, mut spec) {
        spec.policy.env.changes.clear();
        honest.provider.acquire(&ctx, &spec).await
    }

    a_restriction_that_does_not_hold_refuses: "a restriction that does not hold is let go"
    acquire(honest, ctx, mut spec) {
        spec.policy.require.clear();
        honest.provider.acquire(&ctx, &spec).await
    }

    a_limit_that_is_required_is_enforced_or_refused: "a limit that is required is only wished for"
    acquire(honest, ctx, mut spec) {
        for limit in spec.policy.limits.values_mut() {
            limit.strength = Strength::BestEffort;
        }
        honest.provider.acquire(&ctx, &spec).await
    }

    a_release_says_whether_there_was_a_sandbox: "there always was a sandbox to release"
    release(honest, ctx, (id, disposition)) {
        let receipt = honest.provider.release(&ctx, &id, disposition).await?;
        Ok(ReleaseReceipt { existed: true, ..receipt })
    }

    a_release_ends_what_runs: "something writes on after the release"
    release(honest, ctx, (id, disposition)) {
        let root = honest.spec(&id).and_then(|spec| spec.root);
        let receipt = honest.provider.release(&ctx, &id, disposition).await?;
        if let (Some(root), Disposition::Keep) = (root, disposition) {
            tokio::spawn(beat(root));
        }
        Ok(receipt)
    }

    a_release_closes_the_handle: "a release looks like a loss"
    closed(closed) {
        let Closed::Released = closed else { return closed };
        Closed::Lost { reason: "it is gone".to_owned() }
    }

    a_workspace_that_was_there_is_never_removed: "a workspace goes with its sandbox"
    release(honest, ctx, (id, disposition)) {
        if let (Some(spec), Disposition::Destroy) = (honest.spec(&id), disposition)
            && let Some(root) = spec.root
        {
            empty(&root);
        }
        honest.provider.release(&ctx, &id, disposition).await
    }

    a_sandbox_is_listed_while_it_is_there: "no sandbox is listed"
    list(mut entries) {
        entries.clear();
        entries
    }

    a_probe_says_whether_a_spec_works: "every spec is said to work"
    probe(_) {
        Probe::Works { notes: Vec::new() }
    }

    two_sandboxes_share_a_workspace_and_no_process: "two sandboxes of one workspace are one"
    acquire(honest, ctx, spec) {
        let same = honest.specs().into_iter().find(|open| {
            open.id != spec.id && open.root == spec.root && open.policy == spec.policy
        });
        honest.provider.acquire(&ctx, &same.unwrap_or(spec)).await
    }

    what_is_not_declared_answers_unsupported: "a template is ready that nobody can prepare"
    prepare() {
        TemplateReceipt { key: "key".to_owned(), reused: true }
    }
}
