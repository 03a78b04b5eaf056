//! A shared store in memory.

use cluster::{Change, SharedStore};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<BTreeMap<String, Pairs>>>);

type Pairs = BTreeMap<String, Vec<u8>>;

impl Memory {
    /// Exchanges the values of two keys.
    #[allow(dead_code, reason = "for one of the programs")]
    pub fn swap(&self, object: &str, one: &str, other: &str) {
        let mut objects = self.0.lock().unwrap();
        let pairs = objects.get_mut(object).unwrap();
        let (first, second) = (pairs.remove(one), pairs.remove(other));
        first.into_iter().for_each(|value| drop(pairs.insert(other.to_owned(), value)));
        second.into_iter().for_each(|value| drop(pairs.insert(one.to_owned(), value)));
    }
}

impl SharedStore for Memory {
    fn load(&self, object: &str, prefix: &str) -> io::Result<BTreeMap<String, Vec<u8>>> {
        let objects = self.0.lock().unwrap();
        let pairs = objects.get(object).into_iter().flatten();
        Ok(pairs
            .filter(|(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn change(&self, object: &str, change: &Change) -> io::Result<bool> {
        let mut objects = self.0.lock().unwrap();
        let pairs = objects.entry(object.to_owned()).or_default();
        if change.conditions.iter().any(|(key, value)| pairs.get(key) != value.as_ref()) {
            return Ok(false);
        }
        change.removals.iter().for_each(|key| drop(pairs.remove(key)));
        pairs.extend(change.sets.iter().cloned());
        Ok(true)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "any byte will do")]
pub fn entropy(bytes: &mut [u8]) {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = (number >> (8 * (place % 8))) as u8 ^ place as u8;
    }
}
