//! Reading and updating the extra attributes of a file.

use super::acl::check_mode;
use super::core::File;
use crate::acl::access::Access;
use crate::acl::{Rights, SecurityStyle};
use crate::backend::durability::PendingSync;
use crate::backend::xattrs::{SetXattr, XattrName};
use crate::backend::{Blocking, SyncScope};
use crate::claims::{IoKind, Span};
use crate::error::{FsError, FsResult, Wait};
use crate::file_key::FileKey;
use crate::model::attrs::{Attrs, Change, FileType, Time};
use crate::model::caller::Caller;
use crate::namespace::Export;
use crate::volume::extra_attrs::ExtraAttrs;
use std::sync::Arc;

/// Attempts to store a change time together with the change time that the storage had then.
const CHANGED_TRIES: u32 = 3;

impl Export {
    /// Returns the extra attributes of the file of `key`, which has `attrs`. For listings: opens the file only if the
    /// cache has no entry.
    pub fn extra_attrs(self: &Arc<Self>, key: &FileKey, attrs: &Attrs) -> FsResult<ExtraAttrs> {
        if !self.volume.has_extra_attrs(attrs) {
            return Ok(ExtraAttrs::default());
        }
        match self.volume.extra_attrs_cache().slot(key).recall(attrs) {
            Some(extra) => Ok(self.volume.with_style(extra)),
            None => self.file(key, Blocking::Allowed)?.extra_attrs(attrs, Blocking::Allowed),
        }
    }
}

impl File {
    pub fn extra_attrs(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<ExtraAttrs> {
        let Some(xattrs) = self.node.xattrs().filter(|_| self.volume().has_extra_attrs(attrs)) else {
            return Ok(ExtraAttrs::default());
        };
        let slot = self.volume().extra_attrs_cache().slot(&self.key());
        if let Some(extra) = slot.recall(attrs) {
            return Ok(self.volume().with_style(extra));
        }
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        let extra = match xattrs.get(XattrName::EXTRA_ATTRS) {
            Ok(bytes) => ExtraAttrs::decode(&bytes),
            Err(FsError::NotFound) => ExtraAttrs::default(),
            Err(error) => return Err(error),
        };
        slot.remember(attrs, extra);
        Ok(self.volume().with_style(extra))
    }

    /// Whether `caller` may set the creation time: the owner, or a caller with the right to set attributes by a list.
    /// [`FsError::NotSupported`] where it cannot be stored.
    pub fn authorize_born(&self, caller: &Caller) -> FsResult<()> {
        self.check_writable(caller)?;
        let attrs = self.node.attrs(Blocking::Allowed)?;
        if !self.volume().has_extra_attrs(&attrs) {
            return Err(FsError::NotSupported);
        }
        if caller.is_root() || caller.uid == attrs.uid {
            return Ok(());
        }
        match self.rights(caller, &attrs, Blocking::Allowed)? {
            None => Err(FsError::NotOwner),
            Some(rights) if rights.has(Rights::WRITE_ATTRS) => Ok(()),
            Some(_) => Err(FsError::Access),
        }
    }

    /// Sets the creation time. The storage's own birth time stays, hidden.
    pub fn set_born(&self, caller: &Caller, born: Time, pending: &mut PendingSync) -> FsResult<Change> {
        self.authorize_born(caller)?;
        self.update_extra_attrs(caller, |extra| extra.born = Some(born), pending)
    }

    /// Updates the extra attributes with `change`. The owner and callers that may write the file may do so. The update
    /// changes the file, so it clears a change time that was set, unless `change` sets one. [`FsError::NotSupported`]
    /// where the storage has no extended attributes.
    pub fn update_extra_attrs(
        &self,
        caller: &Caller,
        change: impl FnOnce(&mut ExtraAttrs),
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        self.check_writable(caller)?;
        let xattrs = self.node.xattrs().ok_or(FsError::NotSupported)?;
        let slot = self.volume().extra_attrs_cache().slot(&self.key());
        let _changing = slot.lock_change();
        let before = self.node.attrs(Blocking::Allowed)?;
        let was = self.extra_attrs(&before, Blocking::Allowed)?;
        let mut extra =
            ExtraAttrs { is_damaged: false, set_changed: None, changed_at: Time::default(), ..was };
        change(&mut extra);
        let rights = self.rights(caller, &before, Blocking::Allowed)?;
        let authorize = |attrs: &Attrs| {
            if !caller.is_root() && caller.uid != attrs.uid {
                match rights {
                    None => check_mode(&self.node, attrs, caller, Access::WRITE)?,
                    Some(rights) if rights.has(Rights::WRITE_ATTRS) => {}
                    Some(_) => return Err(FsError::Access),
                }
            }
            self.check_claims(caller.by, IoKind::SetAttrs, || Span::ALL)
        };
        let write = |extra: &ExtraAttrs| {
            xattrs.set(XattrName::EXTRA_ATTRS, &extra.encode(), SetXattr::Either, &authorize)
        };
        let mut after = write(&extra)?.after;
        if extra.set_changed.is_some() {
            // The storage's change time is known only after the write.
            for _ in 0..CHANGED_TRIES {
                extra.changed_at = after.changed;
                after = write(&extra)?.after;
                if extra.is_change_of(&after) {
                    break;
                }
            }
        }
        slot.remember(&after, extra);
        self.require_sync(pending, SyncScope::All);
        Ok(Change { before, after })
    }
}

impl crate::Volume {
    fn with_style(&self, extra: ExtraAttrs) -> ExtraAttrs {
        ExtraAttrs { is_listed: self.security_style() == SecurityStyle::Ntfs, ..extra }
    }

    /// Whether a file with `attrs` can have extra attributes.
    pub fn has_extra_attrs(&self, attrs: &Attrs) -> bool {
        let carries = matches!(attrs.file_type, FileType::Regular | FileType::Directory);
        carries && self.capabilities().xattrs.is_some()
    }
}
