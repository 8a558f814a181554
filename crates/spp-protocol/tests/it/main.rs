//! What holds between the types of this crate, the schema, the golden messages and the document.
