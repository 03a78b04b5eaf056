//! Wrong numbers, wrong extended attributes, wrong ranges.

use super::{Bug, MutantNode, assert_caught};
use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;
use vfs::backend::KEEP_SET_ID;
use vfs::backend::xattrs::XATTR_VALUE_BYTES_MAX;
use vfs::{
    Acls, Attrs, AuthorizeWrite, AuthorizeXattr, Blocking, Change, FileType, FsError, FsResult, NodeRef,
    PosixAcl, Ranges, Seek, SetAttrs, SetTime, SetXattr, Span, XattrName, XattrSink, Xattrs,
};

const PAGE_BYTES: u64 = 4096;
const TOUCH: SetAttrs = SetAttrs {
    mode: None,
    umask: 0,
    uid: None,
    gid: None,
    size: None,
    accessed: None,
    modified: Some(SetTime::Now),
};

impl Acls for MutantNode {
    fn access_acl(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<Option<Arc<PosixAcl>>> {
        let acl = self.inner.acls().ok_or(FsError::NotSupported)?.access_acl(attrs, blocking)?;
        if self.has(Bug::RemembersLists) {
            return Ok(self.shared.lists.lock().entry(self.inner.key()).or_insert(acl).clone());
        }
        if self.has(Bug::ListsAreModes) {
            let group = attrs.mode >> 3 & 7;
            return Ok(acl.map(|acl| Arc::new(PosixAcl { group, ..(*acl).clone() })));
        }
        Ok(acl)
    }

    fn default_acl(&self) -> FsResult<Option<Arc<PosixAcl>>> {
        let acl = self.inner.acls().ok_or(FsError::NotSupported)?.default_acl()?;
        Ok(acl.filter(|_| !self.has(Bug::HandsNoListOn)))
    }

    fn set_access_acl(&self, acl: &PosixAcl) -> FsResult<()> {
        self.inner.acls().ok_or(FsError::NotSupported)?.set_access_acl(acl)
    }

    fn set_default_acl(&self, acl: Option<&PosixAcl>) -> FsResult<()> {
        self.inner.acls().ok_or(FsError::NotSupported)?.set_default_acl(acl)
    }
}

impl MutantNode {
    fn inner_xattrs(&self) -> FsResult<&dyn Xattrs> {
        self.inner.xattrs().ok_or(FsError::NotSupported)
    }

    fn inner_ranges(&self) -> FsResult<&dyn Ranges> {
        self.inner.ranges().ok_or(FsError::NotSupported)
    }

    /// Applies a bug to a refusal.
    fn blurred<T>(&self, result: FsResult<T>) -> FsResult<T> {
        result.map_err(|error| match error {
            FsError::Stale if self.has(Bug::NeverStale) => FsError::NotFound,
            FsError::NotSupported if self.has(Bug::BlursTypes) => FsError::NotFound,
            FsError::IsDirectory if self.has(Bug::BlursTypes) => FsError::Invalid,
            _ => error,
        })
    }

    /// Changes a range of this file as a bug would have it.
    fn change_range(
        &self,
        len: u64,
        authorize: AuthorizeWrite<'_>,
        act: impl Fn(&dyn Ranges, AuthorizeWrite<'_>) -> FsResult<Change>,
    ) -> FsResult<Change> {
        if len == 0 && self.has(Bug::TouchesForNothing) {
            return self.inner.set_attrs(&TOUCH);
        }
        let forgets = self.has(Bug::ForgetsToClear);
        let ask = |file: &Attrs| authorize(file).map(|clears| clears && !forgets);
        let done = self.changed(|node, asking| {
            act(node.ranges().ok_or(FsError::NotSupported)?, &|file| asking.ask(file, ask, false))
        });
        self.blurred(done)
    }

    /// The target of a copy, which another backend may have.
    fn bare_target(target: &NodeRef) -> &NodeRef {
        let any: &dyn Any = &**target;
        any.downcast_ref::<Self>().map_or(target, |node| &node.inner)
    }

    fn copy_by_hand(&self, target: &NodeRef, span: &Span, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        let (mut data, len) = (Vec::new(), usize::try_from(span.len).unwrap_or(0).min(1 << 20));
        self.inner.read(span.source, len, &mut data, Blocking::Allowed)?;
        target.write(span.target, &data, authorize)
    }
}

impl Xattrs for MutantNode {
    fn get(&self, name: XattrName<'_>) -> FsResult<Vec<u8>> {
        if self.has(Bug::XattrsOfNames) && self.inner.attrs(Blocking::Allowed)?.links > 1 {
            return Err(FsError::NotFound);
        }
        let folded = name.bytes().to_ascii_lowercase();
        let name = if self.has(Bug::FoldsXattrNames) { XattrName::new(&folded)? } else { name };
        self.blurred(self.inner_xattrs()?.get(name))
    }

    fn list(&self, cookie: u64, sink: &mut XattrSink<'_>) -> FsResult<bool> {
        if !self.has(Bug::ListsXattrsByPosition) {
            return self.blurred(self.inner_xattrs()?.list(cookie, sink));
        }
        let mut names = Vec::new();
        self.inner_xattrs()?.list(0, &mut |name, _| {
            names.push(name.bytes().to_vec());
            ControlFlow::Continue(())
        })?;
        names.sort();
        let rest = names.iter().zip(1..).filter(|&(_, at)| at > cookie);
        Ok(rest.into_iter().all(|(name, at)| sink(XattrName::new(name).unwrap(), at).is_continue()))
    }

    fn set(
        &self,
        name: XattrName<'_>,
        value: &[u8],
        how: SetXattr,
        authorize: AuthorizeXattr<'_>,
    ) -> FsResult<Change> {
        let folded = name.bytes().to_ascii_lowercase();
        let name = if self.has(Bug::FoldsXattrNames) { XattrName::new(&folded)? } else { name };
        let how = if self.has(Bug::OverwritesXattrs) { SetXattr::Either } else { how };
        let room = match self.shared.bug {
            Bug::CutsXattrs => value.len().saturating_sub(1),
            Bug::TakesLargeXattrs => value.len().min(XATTR_VALUE_BYTES_MAX),
            _ => value.len(),
        };
        let done = self.changed(|node, asking| {
            let xattrs = node.xattrs().ok_or(FsError::NotSupported)?;
            xattrs.set(name, &value[..room], how, &|file| asking.ask(file, authorize, ()))
        });
        let mut done = self.blurred(done)?;
        if self.has(Bug::XattrsAreContents) {
            done.after = self.inner.set_attrs(&TOUCH)?.after;
        }
        Ok(done)
    }

    fn remove(&self, name: XattrName<'_>, authorize: AuthorizeXattr<'_>) -> FsResult<Change> {
        if self.has(Bug::KeepsRemovedXattrs) {
            let value = self.inner_xattrs()?.get(name)?;
            return self.inner_xattrs()?.set(name, &value, SetXattr::Either, authorize);
        }
        let done = self.changed(|node, asking| {
            let xattrs = node.xattrs().ok_or(FsError::NotSupported)?;
            xattrs.remove(name, &|file| asking.ask(file, authorize, ()))
        });
        self.blurred(done)
    }
}

impl Ranges for MutantNode {
    fn seek(&self, offset: u64, what: Seek) -> FsResult<Option<u64>> {
        match self.inner_ranges()?.seek(offset, what) {
            Ok(Some(place)) if self.has(Bug::SeeksTooFar) && what == Seek::Data => {
                Ok(Some(place + PAGE_BYTES))
            }
            Err(FsError::NoDevice) if self.has(Bug::SeeksPastTheEnd) => Ok(None),
            found => self.blurred(found),
        }
    }

    fn allocate(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        let size = self.inner.attrs(Blocking::Allowed)?.size;
        let end = offset.saturating_add(len);
        self.change_range(len, authorize, |ranges, authorize| match self.shared.bug {
            Bug::AllocatesNothing if end > size && len > 0 => {
                self.inner.set_attrs(&SetAttrs { size: Some(end), ..SetAttrs::default() })
            }
            Bug::AllocatesNothing => ranges.allocate(offset, 0, authorize),
            Bug::AllocatesWithinTheFile => {
                ranges.allocate(offset, len.min(size.saturating_sub(offset)), authorize)
            }
            Bug::WrapsOffsets => ranges.allocate(offset % (1 << 31), len % (1 << 20), authorize),
            _ => ranges.allocate(offset, len, authorize),
        })
    }

    fn preallocate(&self, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.change_range(len, authorize, |ranges, authorize| match self.shared.bug {
            Bug::AllocatesNothing => ranges.preallocate(0, authorize),
            _ => ranges.preallocate(len, authorize),
        })
    }

    fn punch(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        let (offset, len) = if self.has(Bug::PunchesWholePages) && len > 0 {
            let start = offset / PAGE_BYTES * PAGE_BYTES;
            (start, offset.saturating_add(len).div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES) - start)
        } else {
            (offset, len)
        };
        self.change_range(len, authorize, |ranges, authorize| ranges.punch(offset, len, authorize))
    }

    fn zero(&self, offset: u64, len: u64, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        self.change_range(len, authorize, |ranges, authorize| ranges.zero(offset, len, authorize))
    }

    fn shares_storage(&self, target: &NodeRef) -> bool {
        let target = Self::bare_target(target);
        let shares = self.inner_ranges().is_ok_and(|ranges| ranges.shares_storage(target));
        shares && !self.has(Bug::SharesWithNone) || self.has(Bug::SharesWithAll)
    }

    fn copy_to(
        &self,
        target: &NodeRef,
        span: &Span,
        authorize: AuthorizeWrite<'_>,
    ) -> FsResult<(u64, Change)> {
        let target = Self::bare_target(target);
        let cut = if self.has(Bug::CopiesTooLittle) { span.len.saturating_sub(1) } else { span.len };
        let done = self.inner_ranges()?.copy_to(target, &Span { len: cut, ..*span }, authorize);
        match self.blurred(done) {
            Err(FsError::Invalid) if self.has(Bug::CopiesOverlaps) => {
                Ok((span.len, self.copy_by_hand(target, span, authorize)?))
            }
            Ok((mut count, mut change)) if self.has(Bug::CopiesEndlessly) && count > 0 => loop {
                let (source, target_at) = (span.source + count, span.target + count);
                let rest = Span { source, target: target_at, len: span.len - count };
                let (more, next) = self.inner_ranges()?.copy_to(target, &rest, KEEP_SET_ID)?;
                if more == 0 {
                    return Ok((count, change));
                }
                count += more;
                change.after = next.after;
            },
            Ok((count, change)) if cut < span.len => Ok((count + 1, change)),
            done => done,
        }
    }

    fn clone_to(&self, target: &NodeRef, span: &Span, authorize: AuthorizeWrite<'_>) -> FsResult<Change> {
        let target = Self::bare_target(target);
        let is_file = target.attrs(Blocking::Allowed)?.file_type == FileType::Regular;
        match self.inner_ranges()?.clone_to(target, span, authorize) {
            Err(FsError::Invalid) if self.has(Bug::ClonesAnything) && is_file => {
                self.copy_by_hand(target, span, authorize)
            }
            Ok(change) if self.has(Bug::ClonesAreOneFile) && span.len > 0 => {
                target.write(span.target, b"?", KEEP_SET_ID)?;
                Ok(change)
            }
            done => self.blurred(done),
        }
    }
}

#[test]
fn wrong_numbers_are_noticed() {
    assert_caught(
        Bug::RepeatsNumbers,
        &["counters/every_change_has_a_number_of_its_own", "counters/every_change_of_a_directory_too"],
    );
    assert_caught(
        Bug::NumbersLooks,
        &["counters/what_changes_nothing_keeps_the_number", "counters/everybody_is_told_the_same_number"],
    );
    assert_caught(Bug::BornAgain, &["counters/a_birth_time_stays"]);
}

#[test]
fn wrong_extended_attributes_are_noticed() {
    assert_caught(Bug::HidesCapabilities, &["xattrs/a_backend_says_whether_it_has_them"]);
    assert_caught(
        Bug::CutsXattrs,
        &["xattrs/a_value_is_read_back", "oracle/random_operations_agree_with_a_model"],
    );
    assert_caught(
        Bug::OverwritesXattrs,
        &["xattrs/create_and_replace_look_first", "oracle/random_operations_agree_with_a_model"],
    );
    assert_caught(Bug::KeepsRemovedXattrs, &["xattrs/a_removed_attribute_is_gone"]);
    assert_caught(Bug::FoldsXattrNames, &["xattrs/names_are_bytes"]);
    assert_caught(Bug::ListsXattrsByPosition, &["xattrs/a_list_comes_in_pages"]);
    assert_caught(Bug::TakesLargeXattrs, &["xattrs/values_are_bounded"]);
    assert_caught(Bug::BlursTypes, &["xattrs/nothing_else_carries_any"]);
    assert_caught(Bug::XattrsAreContents, &["xattrs/only_the_change_shows"]);
    assert_caught(Bug::RefusesLate, &["xattrs/a_refusal_leaves_all_as_it_was"]);
    assert_caught(Bug::XattrsOfNames, &["xattrs/attributes_go_with_the_file"]);
    assert_caught(Bug::NeverStale, &["xattrs/a_removed_file_has_none"]);
}

#[test]
fn wrong_lists_are_noticed() {
    assert_caught(Bug::HidesCapabilities, &["acls/a_backend_says_whether_it_has_them"]);
    assert_caught(
        Bug::RemembersLists,
        &["acls/a_list_of_others_is_seen_at_once", "acls/a_list_is_found_by_every_look"],
    );
    assert_caught(
        Bug::ListsAreModes,
        &[
            "acls/a_list_of_others_is_seen_at_once",
            "acls/a_new_mode_sets_the_mask",
            "acls/what_is_made_inherits",
        ],
    );
    assert_caught(Bug::HandsNoListOn, &["acls/what_is_made_inherits"]);
}

#[test]
fn wrong_ranges_are_noticed() {
    assert_caught(Bug::HidesCapabilities, &["ranges/a_backend_says_what_it_has"]);
    assert_caught(Bug::SeeksTooFar, &["ranges/data_and_holes_are_found"]);
    assert_caught(Bug::SeeksPastTheEnd, &["ranges/places_outside_the_file_are_refused"]);
    assert_caught(Bug::AllocatesNothing, &["ranges/storage_is_taken_and_given_back"]);
    assert_caught(
        Bug::AllocatesWithinTheFile,
        &["ranges/an_allocation_grows_a_file_by_zeros", "ranges/changes_survive_sync_and_restart"],
    );
    assert_caught(
        Bug::PunchesWholePages,
        &[
            "ranges/zeros_reach_as_far_as_asked",
            "ranges/operations_match_a_vector",
            "oracle/random_operations_agree_with_a_model",
        ],
    );
    assert_caught(Bug::TouchesForNothing, &["ranges/empty_ranges_change_nothing"]);
    assert_caught(Bug::WrapsOffsets, &["ranges/ranges_past_the_largest_are_refused"]);
    assert_caught(Bug::BlursTypes, &["ranges/only_regular_files_have_ranges"]);
    assert_caught(Bug::ForgetsToClear, &["ranges/set_id_bits_go_away_on_demand"]);
    assert_caught(Bug::RefusesLate, &["ranges/set_id_bits_go_away_on_demand"]);
}

#[test]
fn wrong_copies_are_noticed() {
    for bug in [Bug::SharesWithNone, Bug::SharesWithAll] {
        assert_caught(bug, &["ranges/the_files_of_a_backend_lie_in_one_file_system"]);
    }
    assert_caught(
        Bug::CopiesTooLittle,
        &["ranges/a_copy_goes_to_the_end_of_the_source", "oracle/random_operations_agree_with_a_model"],
    );
    assert_caught(Bug::CopiesEndlessly, &["ranges/a_long_copy_comes_in_parts"]);
    assert_caught(Bug::CopiesOverlaps, &["ranges/a_range_does_not_overlap_itself"]);
    assert_caught(Bug::ClonesAreOneFile, &["ranges/a_clone_is_a_file_of_its_own"]);
    assert_caught(Bug::ClonesAnything, &["ranges/clones_are_of_whole_blocks"]);
}
