//! Programs that the kernel runs on every system call, and that refuse some of them (seccomp).
//!
//! A program answers in one way only, so there is one for each answer. Which calls are refused always is a
//! table in `lists`; which ones depend on their arguments is in `arguments`. The kernel remembers which calls
//! are allowed whatever their arguments are, and those cost nothing.
//!
//! **Invariants.**
//! - Numbers and flags are compared in as many bits as the kernel looks at. A comparison of 64 bits where it
//!   takes 32 is passed by setting one of the others.
//! - What a filter cannot see, because it lies behind a pointer, is refused as a whole with an answer that
//!   makes programs fall back to a call that can be seen.
//! - No other architecture's numbers are accepted: what enters the kernel as 32-bit code is ended, and the
//!   third numbering of x86-64 is answered as unknown.

mod arguments;
mod lists;

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch};

use crate::error::GuardError;
use crate::spec::{GuardSpec, NetworkUse};

/// Calls by number; without a rule a call is refused whatever its arguments are.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The programs that keep away what is asked for, in the order in which they are installed.
pub(crate) fn programs(spec: &GuardSpec) -> Result<Vec<BpfProgram>, GuardError> {
    let mut refused: Rules = lists::NEVER
        .iter()
        .chain(lists::NEVER_HERE)
        .map(|number| (*number, Vec::new()))
        .collect();
    arguments::refused(&mut refused, spec).map_err(|error| GuardError::Filter(error.into()))?;
    let unknown = lists::UNKNOWN
        .iter()
        .map(|number| (*number, Vec::new()))
        .collect();
    let mut programs = vec![
        compile(refused, libc::EPERM)?,
        compile(unknown, libc::ENOSYS)?,
    ];
    if spec.network == NetworkUse::Denied {
        let sockets = arguments::only_unconnected_sockets()
            .map_err(|error| GuardError::Filter(error.into()))?;
        programs.push(compile(sockets, libc::EAFNOSUPPORT)?);
    }
    if cfg!(target_arch = "x86_64") {
        programs.push(lists::third_numbering());
    }
    Ok(programs)
}

fn compile(rules: Rules, errno: i32) -> Result<BpfProgram, GuardError> {
    let processor = std::env::consts::ARCH;
    let target = TargetArch::try_from(processor).map_err(|_| GuardError::Processor(processor))?;
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let failed = |error: seccompiler::BackendError| GuardError::Filter(error.into());
    SeccompFilter::new(rules, SeccompAction::Allow, answer, target)
        .map_err(failed)?
        .try_into()
        .map_err(failed)
}
