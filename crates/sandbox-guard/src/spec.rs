//! What a guard is asked to keep away.

/// What is to be kept away beside what every guard keeps away: namespaces, mounts, devices, the rarely
/// used parts of the kernel, set-id bits, other processes' limits and priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardSpec {
    /// Who sees to it that files elsewhere are not written.
    pub writes: Writes,
    /// Whether a network can be reached.
    pub network: NetworkUse,
    /// Who sees to it that other processes are out of reach.
    pub neighbours: Neighbours,
}

/// Who sees to it that files elsewhere are not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// The guard: writing is possible beneath the directories that it is given, and to the devices that
    /// every program expects.
    Contained,
    /// The surroundings, or nobody.
    Unguarded,
}

/// Whether a network can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkUse {
    /// None, not even by way of another process: no socket can be connected to anything.
    Denied,
    /// Whatever the surroundings have.
    Open,
}

/// Who sees to it that other processes are out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbours {
    /// The guard, as far as it can: shared memory, semaphores and message queues of System V and
    /// message queues of POSIX, which know users and no domains, cannot be used at all.
    Shared,
    /// The surroundings: whatever processes there are belong to the place.
    Own,
}
