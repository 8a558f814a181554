//! What holds between the types of this crate, the schema, the golden messages and the document.

mod defaults;
mod document;
mod golden;
mod hostile;
mod open_choices;
mod round_trip;
mod schema;
mod strategy;
