//! Atomic changes of the pairs of an object.

use super::error::out_of_bounds;
use super::{Rados, object_name};
use crate::ffi::rados::WriteOperation;
use rustix::io::Errno;
use std::io;

/// The longest key.
const KEY_BYTES_MAX: usize = 4096;
/// The longest value. OSDs take a whole message of up to 90 MB (`osd_max_write_size`), but keep values in a database that is
/// made for small ones.
const VALUE_BYTES_MAX: usize = 16 << 20;
/// All keys and values of a change, well below `osd_max_write_size`.
const CHANGE_BYTES_MAX: usize = 64 << 20;
/// Each is a step of the operation, and steps are counted in 16 bits.
const CONDITIONS_MAX: usize = 1000;

/// Whether the object of a change exists before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// The change creates a missing object.
    #[default]
    Any,
    Required,
    /// The change creates the object.
    Forbidden,
}

/// Conditions and changes of one object, which take effect together or not at all.
///
/// Keys have 1 to 4,096 bytes without NUL, and values 1 byte to 16 MiB: for the cluster an empty value equals an absent key.
/// All keys and values of a change together have at most 64 MiB, and there are at most 1,000 conditions.
#[derive(Clone, Debug, Default)]
pub struct ObjectChange {
    pub presence: Presence,
    /// Keys with the value that each must have; `None` if the key must be absent.
    pub conditions: Vec<(String, Option<Vec<u8>>)>,
    /// Keys that are removed, before others are set.
    pub removals: Vec<String>,
    pub sets: Vec<(String, Vec<u8>)>,
}

impl ObjectChange {
    fn check(&self) -> io::Result<()> {
        if self.conditions.len() > CONDITIONS_MAX {
            let count = self.conditions.len();
            return Err(out_of_bounds(format!(
                "a change has up to {CONDITIONS_MAX} conditions, not {count}"
            )));
        }
        let conditions = self.conditions.iter().map(|(key, value)| (key, value.as_deref()));
        let removals = self.removals.iter().map(|key| (key, None));
        let sets = self.sets.iter().map(|(key, value)| (key, Some(&**value)));
        let mut bytes = 0_usize;
        for (key, value) in conditions.chain(removals).chain(sets) {
            check_key(key)?;
            value.into_iter().try_for_each(|value| check_value(key, value))?;
            bytes += key.len() + value.map_or(0, <[u8]>::len);
        }
        if bytes > CHANGE_BYTES_MAX {
            return Err(out_of_bounds(format!("a change has up to {CHANGE_BYTES_MAX} bytes, not {bytes}")));
        }
        Ok(())
    }

    /// Whether the error of the operation says that a condition does not hold.
    fn is_refusal(&self, errno: Errno) -> bool {
        match errno {
            Errno::CANCELED => true,
            Errno::NOENT => self.presence == Presence::Required,
            Errno::EXIST => self.presence == Presence::Forbidden,
            _ => false,
        }
    }
}

pub(super) fn check_key(key: &str) -> io::Result<()> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX || key.contains('\0') {
        return Err(out_of_bounds(format!(
            "a key has 1 to {KEY_BYTES_MAX} bytes without NUL, not {key:.80?}"
        )));
    }
    Ok(())
}

fn check_value(key: &str, value: &[u8]) -> io::Result<()> {
    if value.is_empty() || value.len() > VALUE_BYTES_MAX {
        let bytes = value.len();
        return Err(out_of_bounds(format!(
            "a value has 1 to {VALUE_BYTES_MAX} bytes, that of {key} {bytes}"
        )));
    }
    Ok(())
}

impl Rados {
    /// Runs a change, and returns when it is durable. `Ok(false)`: a condition does not hold, and nothing has changed.
    pub fn change(&self, object: &str, change: &ObjectChange) -> io::Result<bool> {
        change.check()?;
        let name = object_name(object)?;
        let run = || {
            let mut operation = WriteOperation::new(&self.pool)?;
            match change.presence {
                // Comparisons need an object, if only the one that this operation creates.
                Presence::Any => operation.create_object(false),
                Presence::Required => operation.require_object(),
                Presence::Forbidden => operation.create_object(true),
            }
            for (key, value) in &change.conditions {
                operation.require_value(key, value.as_deref().unwrap_or_default());
            }
            if !change.removals.is_empty() {
                operation.remove_keys(&change.removals);
            }
            if !change.sets.is_empty() {
                operation.set(&change.sets);
            }
            operation.run(&self.pool, &name)
        };
        match run() {
            Ok(()) => Ok(true),
            Err(errno) if change.is_refusal(errno) && self.pool.is_present() => Ok(false),
            Err(errno) => Err(self.failed("change", object, errno)),
        }
    }
}
