//! `spp` as its users meet it: the real executable, the real provider `local`, a scratch directory.

mod config;
mod doctor;
mod ends;
mod files;
mod gc;
mod real_work;
mod run;
mod search;
mod shell;
mod support;
mod terminal;
mod trees;
