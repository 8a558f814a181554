//! Sandboxes that are wrong in exactly one way.
