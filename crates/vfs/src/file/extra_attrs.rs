//! What is kept with a file besides its attributes: asking and changing.

use super::acl::check_mode;
use super::core::{File, check_writable};
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

/// How often a change time is set whose record was written too slowly.
const CHANGED_TRIES: u32 = 3;

impl Export {
    /// What is kept with the file of `key`, which has `attrs`: that of a listing, which opens files only where it has not asked
    /// before.
    pub fn extra_attrs(self: &Arc<Self>, key: &FileKey, attrs: &Attrs) -> FsResult<ExtraAttrs> {
        if !self.volume.has_extra_attrs(attrs) {
            return Ok(ExtraAttrs::default());
        }
        match self.volume.kept().slot(key).recall(attrs) {
            Some(kept) => Ok(self.volume.with_style(kept)),
            None => self.file(key, Blocking::Allowed)?.extra_attrs(attrs, Blocking::Allowed),
        }
    }
}

impl File {
    /// What is kept with this file, which has `attrs`.
    pub fn extra_attrs(&self, attrs: &Attrs, blocking: Blocking) -> FsResult<ExtraAttrs> {
        let Some(xattrs) = self.node.xattrs().filter(|_| self.volume().has_extra_attrs(attrs)) else {
            return Ok(ExtraAttrs::default());
        };
        let slot = self.volume().kept().slot(&self.key());
        if let Some(kept) = slot.recall(attrs) {
            return Ok(self.volume().with_style(kept));
        }
        if blocking == Blocking::Never {
            return Err(FsError::Wait(Wait::Storage));
        }
        let kept = match xattrs.get(XattrName::KEPT) {
            Ok(bytes) => ExtraAttrs::decode(&bytes),
            Err(FsError::NotFound) => ExtraAttrs::default(),
            Err(error) => return Err(error),
        };
        slot.remember(attrs, kept);
        Ok(self.volume().with_style(kept))
    }

    /// Whether `caller` may set when this file was made: as with other times its owner, or by a list who may set attributes.
    /// [`FsError::NotSupported`] where that is not kept.
    pub fn authorize_born(&self, caller: &Caller) -> FsResult<()> {
        check_writable(caller)?;
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

    /// Sets when this file was made. What the storage says of that stays, and is not shown any longer.
    pub fn set_born(&self, caller: &Caller, born: Time, pending: &mut PendingSync) -> FsResult<Change> {
        self.authorize_born(caller)?;
        self.update_extra_attrs(caller, |kept| kept.born = Some(born), pending)
    }

    /// Keeps with this file what `change` makes of what is kept now. Its owner may, and whoever may write it. That changes the file,
    /// so a change time that was set is not kept, unless `change` sets one.
    /// [`FsError::NotSupported`] where the storage keeps nothing with files.
    pub fn update_extra_attrs(
        &self,
        caller: &Caller,
        change: impl FnOnce(&mut ExtraAttrs),
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        check_writable(caller)?;
        let xattrs = self.node.xattrs().ok_or(FsError::NotSupported)?;
        let slot = self.volume().kept().slot(&self.key());
        let _changing = slot.lock_change();
        let before = self.node.attrs(Blocking::Allowed)?;
        let was = self.extra_attrs(&before, Blocking::Allowed)?;
        let mut kept =
            ExtraAttrs { is_damaged: false, set_changed: None, changed_at: Time::default(), ..was };
        change(&mut kept);
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
        let write =
            |kept: &ExtraAttrs| xattrs.set(XattrName::KEPT, &kept.encode(), SetXattr::Either, &authorize);
        let mut after = write(&kept)?.after;
        if kept.set_changed.is_some() {
            // Only now it is known what the storage says of the time.
            for _ in 0..CHANGED_TRIES {
                kept.changed_at = after.changed;
                after = write(&kept)?.after;
                if kept.is_change_of(&after) {
                    break;
                }
            }
        }
        slot.remember(&after, kept);
        self.require_sync(pending, SyncScope::All);
        Ok(Change { before, after })
    }
}

impl crate::Volume {
    /// What is kept, with what the volume says besides.
    fn with_style(&self, kept: ExtraAttrs) -> ExtraAttrs {
        ExtraAttrs { is_listed: self.security_style() == SecurityStyle::Ntfs, ..kept }
    }

    /// Whether anything can be kept with a file that has `attrs`.
    pub fn has_extra_attrs(&self, attrs: &Attrs) -> bool {
        let carries = matches!(attrs.file_type, FileType::Regular | FileType::Directory);
        carries && self.capabilities().xattrs.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::durability::Durability;
    use crate::file::Disposition;
    use crate::memfs::MemFs;
    use crate::model::attrs::SetAttrs;
    use crate::model::volume_id::VolumeId;
    use crate::namespace::{ExportId, ShareSettings};
    use crate::volume::Volume;

    use std::sync::atomic::{AtomicI64, Ordering};

    const HIDDEN: u32 = 2;

    /// A file of user 1, mode 0644.
    fn rig() -> (File, File) {
        rig_at(Arc::default())
    }

    /// The same, by this clock of seconds.
    fn rig_at(clock: Arc<AtomicI64>) -> (File, File) {
        let now = move || Time { seconds: clock.load(Ordering::Relaxed), nanos: 0 };
        let fs = Arc::new(MemFs::new(Arc::new(now)));
        let volume = Volume::new(VolumeId(1), "one", fs, Durability::Sync, 1);
        let export = Arc::new(Export {
            id: ExportId(1),
            path: "/one".into(),
            volume: Arc::new(volume),
            rules: Vec::new(),
            endpoints: Vec::new(),
            share: ShareSettings::default(),
        });
        let (root, user) = (export.root(), Caller::new(1, 1, []));
        let mode = SetAttrs { mode: Some(0o777), ..SetAttrs::default() };
        root.set_attrs(&Caller::new(0, 0, []), &mode, None, &mut PendingSync::default()).unwrap();
        let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
        let made =
            root.create(&user, b"file", Disposition::CreateNew, &set, &mut PendingSync::default()).unwrap();
        (root, made.file)
    }

    fn kept(file: &File) -> ExtraAttrs {
        let attrs = file.attrs(Blocking::Allowed).unwrap();
        file.extra_attrs(&attrs, Blocking::Allowed).unwrap()
    }

    #[test]
    fn what_is_kept_comes_back_by_every_name_and_key() {
        let (root, file) = rig();
        let (user, born) = (Caller::new(1, 1, []), Time { seconds: -5, nanos: 7 });
        assert_eq!(kept(&file), ExtraAttrs::default());
        let mut pending = PendingSync::default();
        let change = file
            .update_extra_attrs(
                &user,
                |kept| (kept.flags, kept.born) = (Some(HIDDEN), Some(born)),
                &mut pending,
            )
            .unwrap();
        assert!(change.after.change > change.before.change && pending.added() == 1);
        root.link(&user, &file, b"link", &mut pending).unwrap();
        root.rename(&user, b"file", &root, b"moved", &mut pending).unwrap();
        for name in [b"link".as_slice(), b"moved"] {
            let dir = root.open_dir(&user, Blocking::Allowed).unwrap();
            let found = dir.lookup(name, Blocking::Allowed).unwrap();
            let by_key = root.export().extra_attrs(&found.file.key(), &found.attrs).unwrap();
            assert_eq!((by_key.flags, by_key.born), (Some(HIDDEN), Some(born)));
        }
    }

    #[test]
    fn memory_answers_for_as_long_as_the_file_does_not_change() {
        let (_root, file) = rig();
        let user = Caller::new(1, 1, []);
        let now = || file.attrs(Blocking::Allowed).unwrap();
        assert_eq!(file.extra_attrs(&now(), Blocking::Never), Err(FsError::Wait(Wait::Storage)));
        assert_eq!(kept(&file), ExtraAttrs::default());
        assert_eq!(file.extra_attrs(&now(), Blocking::Never), Ok(ExtraAttrs::default()));
        file.update_extra_attrs(&user, |kept| kept.flags = Some(HIDDEN), &mut PendingSync::default())
            .unwrap();
        assert_eq!(file.extra_attrs(&now(), Blocking::Never).unwrap().flags, Some(HIDDEN));
        let mode = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
        file.set_attrs(&user, &mode, None, &mut PendingSync::default()).unwrap();
        assert_eq!(file.extra_attrs(&now(), Blocking::Never), Err(FsError::Wait(Wait::Storage)));
        assert_eq!(kept(&file).flags, Some(HIDDEN));
    }

    #[test]
    fn a_change_time_is_shown_until_the_file_changes() {
        let clock = Arc::new(AtomicI64::new(1000));
        let (_root, file) = rig_at(Arc::clone(&clock));
        let (user, mut pending) = (Caller::new(1, 1, []), PendingSync::default());
        let set = Time { seconds: 5, nanos: 6 };
        let shown = || {
            let attrs = file.attrs(Blocking::Allowed).unwrap();
            file.extra_attrs(&attrs, Blocking::Allowed).unwrap().changed(&attrs)
        };
        file.update_extra_attrs(&user, |kept| kept.set_changed = Some(set), &mut pending).unwrap();
        assert_eq!(shown(), set);
        clock.store(2000, Ordering::Relaxed);
        assert_eq!(shown(), set);
        let mode = SetAttrs { mode: Some(0o600), ..SetAttrs::default() };
        file.set_attrs(&user, &mode, None, &mut pending).unwrap();
        assert_eq!(shown(), Time { seconds: 2000, nanos: 0 });
        file.update_extra_attrs(&user, |kept| kept.set_changed = Some(set), &mut pending).unwrap();
        file.update_extra_attrs(&user, |kept| kept.flags = Some(HIDDEN), &mut pending).unwrap();
        assert_eq!(shown(), Time { seconds: 2000, nanos: 0 });
    }

    #[test]
    fn those_may_who_own_or_write() {
        let (_root, file) = rig();
        let set = |caller: &Caller| {
            file.update_extra_attrs(caller, |kept| kept.flags = Some(HIDDEN), &mut PendingSync::default())
                .map(drop)
        };
        assert_eq!(set(&Caller::new(2, 2, [])), Err(FsError::Access));
        let mut reader = Caller::new(1, 1, []);
        reader.read_only = true;
        assert_eq!(set(&reader), Err(FsError::ReadOnly));
        assert_eq!(set(&Caller::new(1, 1, [])), Ok(()));
    }

    #[test]
    fn a_client_that_names_attributes_reaches_no_record() {
        let (_root, file) = rig();
        let (user, mut pending) = (Caller::new(1, 1, []), PendingSync::default());
        file.update_extra_attrs(&user, |kept| kept.flags = Some(HIDDEN), &mut pending).unwrap();
        let name = XattrName::KEPT.bytes();
        assert_eq!(file.get_xattr(&user, name), Err(FsError::Access));
        let planted = file.set_xattr(&user, (name, b"planted"), SetXattr::Either, &mut pending);
        assert_eq!(planted.map(drop), Err(FsError::Access));
        assert_eq!(file.remove_xattr(&user, name, &mut pending).map(drop), Err(FsError::Access));
        file.list_xattrs(&user, 0, &mut |name, _| panic!("{name:?} is listed")).unwrap();
        assert_eq!(kept(&file).flags, Some(HIDDEN));
    }

    #[test]
    fn garbage_is_told_and_replaced() {
        let (_root, file) = rig();
        let plant = |bytes: &[u8]| {
            let xattrs = file.node.xattrs().unwrap();
            xattrs.set(XattrName::KEPT, bytes, SetXattr::Either, &|_| Ok(())).unwrap();
        };
        for garbage in [&b""[..], &[9; 20], &[1; 64 << 10]] {
            plant(garbage);
            assert_eq!(kept(&file), ExtraAttrs { is_damaged: true, ..ExtraAttrs::default() });
        }
        let user = Caller::new(1, 1, []);
        file.update_extra_attrs(&user, |_| {}, &mut PendingSync::default()).unwrap();
        assert_eq!(kept(&file), ExtraAttrs::default());
    }
}
