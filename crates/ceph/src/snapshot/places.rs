//! Places of files in snapshots: libcephfs must reach a file of a snapshot by its path.
//!
//! Given a number alone, it finds the inode, but looks up the names in it among the live files. So the places of files that
//! clients have reached are remembered, beyond the time for which a snapshot is open.

use std::collections::HashMap;
use std::ffi::CString;
use vfs::ViewId;
use vfs::sync::Mutex;

/// Places of a volume's snapshots in each of two generations, about 100 bytes each.
const PLACES_MAX: usize = 1 << 16;

/// A name of a file in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of the directory.
    pub(super) parent: u64,
    pub(super) name: CString,
}

/// The places that were used last, by the number of the file.
#[derive(Default)]
pub(crate) struct Places(Mutex<Generations>);

#[derive(Default)]
struct Generations {
    recent: HashMap<(ViewId, u64), Place>,
    earlier: HashMap<(ViewId, u64), Place>,
}

impl Places {
    pub(super) fn find(&self, view: ViewId, number: u64) -> Option<Place> {
        let mut places = self.0.lock();
        if let Some(place) = places.recent.get(&(view, number)) {
            return Some(place.clone());
        }
        let place = places.earlier.remove(&(view, number))?;
        places.insert((view, number), place.clone());
        Some(place)
    }

    pub(super) fn add(&self, view: ViewId, number: u64, place: Place) {
        self.0.lock().insert((view, number), place);
    }

    pub(super) fn forget(&self, view: ViewId) {
        let mut places = self.0.lock();
        places.recent.retain(|(of, _), _| *of != view);
        places.earlier.retain(|(of, _), _| *of != view);
    }
}

impl Generations {
    fn insert(&mut self, key: (ViewId, u64), place: Place) {
        if self.recent.len() >= PLACES_MAX {
            self.earlier = std::mem::take(&mut self.recent);
        }
        self.recent.insert(key, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_use_stay_and_others_go() {
        let places = Places::default();
        let place = |number: u64| Place { parent: number / 2, name: CString::from(c"name") };
        let count = 4 * PLACES_MAX as u64;
        for number in 1..count {
            places.add(ViewId(1), number, place(number));
            assert_eq!(places.find(ViewId(1), 1), Some(place(1)), "after {number}");
        }
        assert_eq!(places.find(ViewId(1), count - 1), Some(place(count - 1)));
        assert_eq!(places.find(ViewId(1), 2), None);
        assert_eq!(places.find(ViewId(2), 1), None);
        places.forget(ViewId(1));
        assert_eq!(places.find(ViewId(1), 1), None);
    }
}
