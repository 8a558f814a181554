//! Archives, ours and hostile ones, as they lie on the disk, and walks over trees made to be hard.

mod archive;
mod copy;
mod hostile;
mod listing;
mod merge;
mod staging;
mod support;
mod walk;
mod walk_git;
mod walk_hostile;
mod walk_tree;
