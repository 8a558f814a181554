//! The document names everything the code has.
