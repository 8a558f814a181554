//! Integration tests of the engine: real directories, real processes.
