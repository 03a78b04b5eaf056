//! The vocabulary of the crate: attributes, names, callers, keys.

pub mod attrs;
pub mod caller;
pub mod name;
pub mod volume_id;
