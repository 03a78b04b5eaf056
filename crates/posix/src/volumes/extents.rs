//! The places of a file's data on the disk.

use crate::error::refused;
use crate::node::Rights;
use crate::node::mount::Mount;
use crate::sys::{self, Extent};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use vfs::{Blocking, FileKey, FsResult};

/// The extents of a range of a file, cut to it; `None` if the data of one is not at one place of the disk.
pub(super) fn extents(
    mount: &Arc<Mount>,
    key: &FileKey,
    bytes: &Range<u64>,
) -> FsResult<Option<Vec<Extent>>> {
    let node = mount.node(key, Blocking::Allowed)?;
    let file = node.open(Rights::Read)?;
    let mut found: Vec<Extent> = Vec::new();
    let all = sys::each_extent(file.as_fd(), bytes.clone(), &mut |extent| {
        let Some(extent) = extent.cut(bytes) else { return true };
        let is_in_one_place = extent.is_in_one_place;
        match found.last_mut() {
            Some(last) if last.goes_on_in(&extent) => last.bytes.end = extent.bytes.end,
            _ => found.push(extent),
        }
        is_in_one_place
    });
    Ok(all.map_err(refused)?.then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(bytes: Range<u64>, place: u64) -> Extent {
        Extent { bytes, place, is_unwritten: false, is_in_one_place: true }
    }

    #[test]
    fn extents_are_cut_and_joined_by_their_place() {
        let one = extent(4096..40_960, 1 << 20);
        assert_eq!(one.cut(&(8192..16_384)), Some(extent(8192..16_384, (1 << 20) + 4096)));
        assert_eq!(one.cut(&(0..8192)), Some(extent(4096..8192, 1 << 20)));
        assert_eq!(one.cut(&(40_960..50_000)), None);
        assert!(one.goes_on_in(&extent(40_960..45_056, (1 << 20) + 36_864)));
        assert!(!one.goes_on_in(&extent(40_960..45_056, 1 << 20)));
        assert!(!one.goes_on_in(&extent(45_056..49_152, (1 << 20) + 36_864)));
        let unwritten = Extent { is_unwritten: true, ..extent(40_960..45_056, (1 << 20) + 36_864) };
        assert!(!one.goes_on_in(&unwritten));
    }
}
