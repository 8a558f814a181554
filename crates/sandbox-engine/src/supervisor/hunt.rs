//! Who descends from whom, and acting on each as soon as it is met.
//!
//! A tree can change faster than the process table can be read: processes that start another one and
//! end, in turns, are somewhere else at every look. So nobody makes a list first and acts afterwards: a
//! process is acted on in the microseconds after it was met. And what a tree that is on the run has
//! made last is at the end of the table, which can be looked at alone, as often as it takes.
//!
//! Not here: what is done to them (`end`, `fork`).

use super::sys;
use super::tree::{Stat, Table};

/// Most descendants that one look can hold. A bigger tree takes more than one.
const CAPACITY: usize = 4096;
/// How often one look goes through the table. A child mostly has a higher number than its parent and is
/// met after it, so that once finds nearly all.
const MOST_TURNS: u32 = 3;
/// Numbers before the last one that are looked at once more: a number is given out a moment before
/// whoever got it is in the table.
const OVERLAP: i32 = 16;
/// More new numbers than this are not looked at one by one.
const MOST_RECENT: i32 = 4096;

/// How often in a row what was made last is looked at in vain, before everything is looked at.
const MOST_VAIN: u32 = 4;
/// How long a chase goes on at most, in milliseconds. Until its end nobody is reaped, and the killed keep
/// their numbers, of which a machine has only so many.
const CHASE_LIMIT_MS: u64 = 1000;

/// A list of process numbers of fixed size.
struct Pids {
    pids: [i32; CAPACITY],
    length: usize,
}

impl Pids {
    const fn new() -> Self {
        Pids {
            pids: [0; CAPACITY],
            length: 0,
        }
    }

    fn has(&self, pid: i32) -> bool {
        self.pids
            .get(..self.length)
            .is_some_and(|pids| pids.contains(&pid))
    }

    fn push(&mut self, pid: i32) {
        if let Some(slot) = self.pids.get_mut(self.length) {
            *slot = pid;
            self.length += 1;
        }
    }
}

/// A search for everything below one process.
pub(super) struct Hunt {
    root: i32,
    /// Who was met by this look, and who by the one before.
    met: Pids,
    before: Pids,
    /// The last number that was given out when this look began, or was looked at since.
    last: Option<i32>,
}

impl Hunt {
    /// One for the descendants of `root`.
    pub(super) const fn below(root: i32) -> Self {
        Hunt {
            root,
            met: Pids::new(),
            before: Pids::new(),
            last: None,
        }
    }

    /// Looks again and again, without a pause, as long as each look meets somebody new.
    ///
    /// Returns whether the last one met nobody new, so that there is something to wait for.
    ///
    /// - `act`: as of [`look`](Self::look)
    pub(super) fn chase(&mut self, table: &Table, mut act: impl FnMut(Stat) -> bool) -> bool {
        let limit = sys::now().saturating_add(CHASE_LIMIT_MS);
        loop {
            let mut new = self.look(table, &mut act);
            // What is on the run is where the last numbers are. Once in vain says little.
            let mut vain = 0;
            while vain < MOST_VAIN && sys::now() < limit {
                let recent = self.look_at_recent(table, &mut act);
                vain = if recent == 0 { vain + 1 } else { 0 };
                new += recent;
            }
            if new == 0 {
                return true;
            }
            if self.is_full() || sys::now() >= limit {
                return false;
            }
        }
    }

    /// Looks through the whole table, and calls `act` with each descendant as it is met, parents before
    /// their children. Those that have ended and were not reaped are among them: such a one may still
    /// have threads that run.
    ///
    /// Returns how many run that the look before had not met.
    ///
    /// - `act`: says whether the process is one of those that are looked for; if it is not, nothing is
    ///   that descends from it
    pub(super) fn look(&mut self, table: &Table, mut act: impl FnMut(Stat) -> bool) -> u32 {
        std::mem::swap(&mut self.met, &mut self.before);
        self.met.length = 0;
        self.last = table.last_number();
        let mut new = 0;
        for _ in 0..MOST_TURNS {
            let known = self.met.length;
            table.each(|stat| new += u32::from(self.meet(stat, &mut act)));
            if self.met.length == known {
                break;
            }
        }
        new
    }

    /// Looks only at what was made since the last look, of either kind, as [`look`](Self::look) does.
    fn look_at_recent(&mut self, table: &Table, mut act: impl FnMut(Stat) -> bool) -> u32 {
        let (Some(from), Some(to)) = (self.last, table.last_number()) else {
            return 0;
        };
        self.last = Some(to);
        // Numbers begin anew after the highest, and then only the whole table shows what is new.
        if !(0..=MOST_RECENT).contains(&to.saturating_sub(from)) {
            return 0;
        }
        let mut new = 0;
        for number in from.saturating_sub(OVERLAP).max(1)..=to {
            if let Some(stat) = table.numbered(number) {
                new += u32::from(self.meet(stat, &mut act));
            }
        }
        new
    }

    /// Whether this look met as many as it can hold.
    fn is_full(&self) -> bool {
        self.met.length == CAPACITY
    }

    /// Acts on a process if it descends from the root and was not met by this look; whether it runs and
    /// was not met by the one before either.
    fn meet(&mut self, stat: Stat, act: &mut impl FnMut(Stat) -> bool) -> bool {
        let below = stat.parent == self.root || self.met.has(stat.parent);
        if !below || self.is_full() || self.met.has(stat.pid) || !act(stat) {
            return false;
        }
        self.met.push(stat.pid);
        !stat.zombie && !self.before.has(stat.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i32, parent: i32) -> Stat {
        Stat {
            pid,
            parent,
            session: 1,
            zombie: false,
        }
    }

    #[test]
    fn this_process_is_found_below_its_parent_and_new_only_once() {
        let own = i32::try_from(std::process::id()).expect("a process number");
        let parent = rustix::process::getppid()
            .expect("a parent")
            .as_raw_nonzero()
            .get();
        let mut hunt = Hunt::below(parent);
        let table = Table::open();
        let mut met = 0;
        let mut count = |stat: Stat| {
            met += u32::from(stat.pid == own);
            true
        };
        assert!(hunt.look(&table, &mut count) > 0);
        hunt.look(&table, &mut count);
        assert!(!hunt.meet(stat(own, parent), &mut count));
        assert_eq!(met, 2, "each look acts on it, and once");
    }

    #[test]
    fn what_descends_from_a_stranger_is_left_alone_and_a_full_look_says_so() {
        let mut hunt = Hunt::below(10);
        let mut met = Vec::new();
        for (pid, parent) in [(12, 11), (11, 10), (12, 11), (10, 1), (13, 99)] {
            hunt.meet(stat(pid, parent), &mut |stat| {
                met.push(stat.pid);
                true
            });
        }
        assert_eq!(met, [11, 12]);
        assert!(!hunt.meet(stat(14, 10), &mut |_| false), "it is spared");
        assert!(
            !hunt.meet(stat(15, 14), &mut |_| true),
            "it descends from one that is"
        );
        assert!(!hunt.is_full());
        for pid in 0..i32::try_from(CAPACITY).expect("a small number") {
            hunt.meet(stat(1000 + pid, 10), &mut |_| true);
        }
        assert!(hunt.is_full());
    }
}
