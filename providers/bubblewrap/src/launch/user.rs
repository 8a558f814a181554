//! Going over to the user that was taken for the sandbox, for good.

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::{Failure, FailureKind};

/// Becomes a user and group, with no further groups.
pub(super) fn become_user(id: u32) -> Result<(), Failure> {
    let failed = |error: Errno| {
        Failure::new(
            FailureKind::User,
            format_args!("becoming user {id}: {error}"),
        )
    };
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    set_thread_groups(&[]).map_err(failed)?;
    set_thread_res_gid(gid, gid, gid).map_err(failed)?;
    set_thread_res_uid(uid, uid, uid).map_err(failed)?;
    Ok(())
}
