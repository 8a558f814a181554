//! Integration tests of the engine: real directories, real processes.

mod file;
mod file_disk;
mod file_read;
mod file_remove;
mod file_user;
mod file_write;
mod fingerprint;
mod guard;
mod guard_kernels;
mod guard_tools;
mod limits;
mod many_mounts;
mod process;
mod process_engine;
mod process_input;
mod process_output;
mod process_start;
mod process_tree;
mod provider;
mod root_links;
mod root_races;
mod search;
mod track;
mod transfer;
