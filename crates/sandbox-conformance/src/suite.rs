//! What the one list of checks becomes: a table of them, and the tests of any provider.
//!
//! The list itself is in `list`. Both [`CHECKS`] and the tests of [`suite!`](crate::suite!) are expanded from this list, so that
//! neither can have a check that the other has not. A check that is written and not listed is
//! dead code, which does not pass the lints.

#[macro_use]
mod list;

use sandbox_core::Capability;

use crate::check::{Check, Need};
use crate::{containment, file, fingerprint, lifecycle, process, search, transfer, undeclared};

/// Expands to one test per check of the suite, named as the check, and one that counts them.
///
/// `factory` is the path of an `async fn() -> Result<Box<dyn Harness>, Failure>`; each test calls it
/// once.
#[macro_export]
macro_rules! suite {
    ($factory:path) => {
        $crate::with_checks! { [$crate::__tests] [$factory] }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ([$factory:path] $($first:ident $(:: $rest:ident)* [$($need:ident),*] $clause:literal;)+) => {
        #[test]
        fn the_suite_leaves_no_check_out() {
            let tests = [$($crate::__last!($first $($rest)*)),+];
            let checks: Vec<_> = $crate::CHECKS.iter().map(|check| check.name).collect();
            assert_eq!(&tests[..], checks);
        }

        $($crate::__test! { $factory, $first $($rest)* })+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __test {
    ($factory:path, $name:ident) => {
        #[test]
        fn $name() {
            $crate::run_by_name(stringify!($name), $factory);
        }
    };
    ($factory:path, $module:ident $($rest:ident)+) => {
        $crate::__test! { $factory, $($rest)+ }
    };
}

macro_rules! need {
    (Outside) => {
        Need::Outside
    };
    ($capability:ident) => {
        Need::Declared(Capability::$capability)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __last {
    ($name:ident) => {
        stringify!($name)
    };
    ($module:ident $($rest:ident)+) => {
        $crate::__last!($($rest)+)
    };
}

macro_rules! checks {
    ([] $($first:ident $(:: $rest:ident)* [$($need:ident),*] $clause:literal;)+) => {
        /// Every check, in the order of the list.
        pub const CHECKS: &[Check] = &[
            $(Check {
                group: stringify!($first),
                name: __last!($first $($rest)*),
                needs: &[$(need!($need)),*],
                clause: $clause,
                run: |place| Box::pin($first $(:: $rest)* (place)),
            }),+
        ];
    };
}

with_checks! { [checks] [] }

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_check_has_a_name_of_its_own_and_a_clause() {
        let names: BTreeSet<_> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), CHECKS.len());
        assert!(CHECKS.iter().all(|check| check.clause.contains(": ")));
    }
}
