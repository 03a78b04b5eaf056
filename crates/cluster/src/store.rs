//! The storage that all gateways share.

use std::collections::BTreeMap;
use std::io;

/// Objects with sorted keys. A change of one object is atomic and durable.
pub trait SharedStore: Send + Sync {
    /// Returns the pairs whose keys begin with `prefix`; none if the object does not exist.
    fn load(&self, object: &str, prefix: &str) -> io::Result<BTreeMap<String, Vec<u8>>>;

    /// Applies a change if all its conditions hold. Returns whether they did. After an error it may have been applied.
    fn change(&self, object: &str, change: &Change) -> io::Result<bool>;
}

/// A conditional change of one object. No value is empty.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Keys and their required values; `None` for a key that must not exist.
    pub conditions: Vec<(String, Option<Vec<u8>>)>,
    pub sets: Vec<(String, Vec<u8>)>,
    pub removals: Vec<String>,
}

impl Change {
    /// Requires that `key` has this value, or does not exist.
    pub fn when(mut self, key: impl Into<String>, value: Option<&[u8]>) -> Self {
        self.conditions.push((key.into(), value.map(<[u8]>::to_vec)));
        self
    }

    pub fn set(mut self, key: impl Into<String>, value: Vec<u8>) -> Self {
        self.sets.push((key.into(), value));
        self
    }

    pub fn remove(mut self, key: impl Into<String>) -> Self {
        self.removals.push(key.into());
        self
    }
}
