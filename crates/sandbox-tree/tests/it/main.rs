//! What comes out of archives, ours and hostile ones, as it lies on the disk.

mod archive;
mod hostile;
mod merge;
mod staging;
mod support;
