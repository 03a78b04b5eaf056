//! Named streams of files and directories. A stream has the attributes and the rights of its file, and data of its own.

use super::attr::Setter;
use super::core::{File, NamedStream, check_writable};
use crate::acl::access::Access;
use crate::backend::durability::PendingSync;
use crate::backend::{Blocking, NodeRef, SyncScope};
use crate::claims::{IoKind, Span, Stream};
use crate::error::{FsError, FsResult};
use crate::model::attrs::{Attrs, Change, FileType, SetAttrs, SetTime};
use crate::model::caller::Caller;
use crate::volume::streams::{self, STREAMS_MAX, StoredName};
use std::sync::Arc;

/// Takes the name of a stream, its size, and what storage it takes.
pub type StreamSink<'s> = dyn FnMut(&[u8], u64, u64) + 's;

impl NamedStream {
    /// The attributes of a file as its stream shows them, which has `own`.
    pub(super) fn attrs(&self, file: &Attrs, own: &Attrs) -> Attrs {
        Attrs { file_type: FileType::Regular, size: own.size, used: own.used, ..*file }
    }
}

impl File {
    /// What the table of claims knows this stream by; that of the data for a file as such.
    #[inline]
    pub fn stream(&self) -> Stream {
        self.stream.as_ref().map_or(Stream::default(), |stream| stream.number)
    }

    /// Whether this is a named stream.
    #[inline]
    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Whether this is a stream that has lost its name.
    pub fn has_lost_stream(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| streams::is_gone(&stream.node))
    }

    /// The file that this is a stream of; of a file, itself.
    #[must_use]
    pub fn of_stream(&self) -> Self {
        self.beside(NodeRef::clone(&self.node))
    }

    /// The stream of this name. Whoever finds the file finds its streams.
    pub fn find_stream(&self, name: &[u8]) -> FsResult<Self> {
        let stored = StoredName::new(name)?;
        let dir = self.volume().streams_of(&self.key())?.ok_or(FsError::NotFound)?;
        let found = dir.lookup(stored.name()?, Blocking::Allowed)?;
        self.with_stream(found.node, &found.attrs)
    }

    /// Lists all streams of this file.
    pub fn list_streams(&self, sink: &mut StreamSink<'_>) -> FsResult<()> {
        match self.volume().streams_of(&self.key())? {
            Some(dir) => streams::list(&dir, &mut |name, attrs| sink(name, attrs.size, attrs.used)),
            None => Ok(()),
        }
    }

    /// Makes a stream, without data. Who may write the file may.
    pub fn make_stream(&self, caller: &Caller, name: &[u8], pending: &mut PendingSync) -> FsResult<Self> {
        let stored = StoredName::new(name)?;
        let volume = self.volume();
        let _changing = volume.kept().slot(&self.key()).lock_change();
        self.check_streams_change(caller)?;
        // Its times change.
        self.check_claims(caller.by, IoKind::SetAttrs, || Span::ALL)?;
        let dir = volume.make_streams_of(&self.key(), &mut |dir| {
            volume.require_sync(pending, dir, SyncScope::All);
        })?;
        let mut count = 0;
        streams::list(&dir, &mut |_, _| count += 1)?;
        if count >= STREAMS_MAX {
            return Err(FsError::NoSpace);
        }
        let made = dir.create(stored.name()?, &|_| Ok(streams::own(FileType::Regular)))?;
        // The file may have gone meanwhile, with all streams that it had.
        if self.node.attrs(Blocking::Allowed).map_or(true, |attrs| attrs.links == 0) {
            dir.remove(stored.name()?, &|_| Ok(()))?;
            return Err(FsError::Stale);
        }
        volume.require_sync(pending, &dir, SyncScope::All);
        volume.note_streams_changed(&self.node, pending)?;
        self.with_stream(made.found.node, &made.found.attrs)
    }

    /// Gives a stream of this file another name; [`FsError::Exists`] if another has it and is not to go. Who caches the stream gives that
    /// up first, and with it what is kept open by the old name.
    pub fn rename_stream(
        &self,
        caller: &Caller,
        from: &[u8],
        to: &[u8],
        replaces: bool,
        pending: &mut PendingSync,
    ) -> FsResult<()> {
        let (from, to, names) = (StoredName::new(from)?, StoredName::new(to)?, (from, to));
        let volume = self.volume();
        let _changing = volume.kept().slot(&self.key()).lock_change();
        self.check_streams_change(caller)?;
        let dir = volume.streams_of(&self.key())?.ok_or(FsError::NotFound)?;
        if !replaces {
            match dir.lookup(to.name()?, Blocking::Allowed) {
                Err(FsError::NotFound) => {}
                found => return found.and(Err(FsError::Exists)),
            }
        }
        let found = dir.lookup(from.name()?, Blocking::Allowed)?;
        let stream = self.with_stream(found.node, &found.attrs)?;
        stream.check_claims(caller.by, IoKind::Replace, || Span::ALL)?;
        dir.rename(from.name()?, &dir, to.name()?, &|_, _| Ok(()))?;
        self.update_stream_links(names.0, names.1);
        volume.require_sync(pending, &dir, SyncScope::All);
        volume.note_streams_changed(&self.node, pending)
    }

    /// Removes all streams of this file, as when it is replaced by a new one. Who may write it may.
    pub fn remove_streams(&self, caller: &Caller, pending: &mut PendingSync) -> FsResult<()> {
        self.check_streams_change(caller)?;
        let volume = self.volume();
        let had_any = volume.remove_streams(&self.key(), &mut |dir| {
            volume.require_sync(pending, dir, SyncScope::All);
        })?;
        if had_any { volume.note_streams_changed(&self.node, pending) } else { Ok(()) }
    }

    fn with_stream(&self, node: NodeRef, attrs: &Attrs) -> FsResult<Self> {
        if attrs.file_type != FileType::Regular {
            return Err(FsError::NotSupported);
        }
        let number = streams::number(&node);
        let mut file = self.of_stream();
        file.stream = Some(Arc::new(NamedStream { node, number }));
        Ok(file)
    }

    /// Checks that `caller` may add and remove streams.
    fn check_streams_change(&self, caller: &Caller) -> FsResult<()> {
        check_writable(caller)?;
        let attrs = self.node.attrs(Blocking::Allowed)?;
        match attrs.file_type {
            FileType::Regular | FileType::Directory => {
                self.check_data(&attrs, caller, Access::WRITE, Blocking::Allowed)
            }
            _ => Err(FsError::NotSupported),
        }
    }

    /// Adds the flush of the data.
    pub(super) fn require_data_sync(&self, pending: &mut PendingSync, scope: SyncScope) {
        self.volume().require_sync(pending, self.data(), scope);
    }

    /// What a change of the data did to the attributes that are shown: where they are a stream's, its file is modified
    /// (MS-FSA §2.1.5.4).
    pub(super) fn data_changed(&self, change: Change) -> FsResult<Change> {
        let Some(stream) = &self.stream else { return Ok(change) };
        let modified = SetAttrs { modified: Some(SetTime::Now), ..SetAttrs::default() };
        let file = self.node.set_attrs(&modified)?;
        Ok(Change {
            before: stream.attrs(&file.before, &change.before),
            after: stream.attrs(&file.after, &change.after),
        })
    }

    /// What a change of the file's attributes did to those that are shown.
    pub(super) fn shown_change(&self, change: Change) -> FsResult<Change> {
        let Some(stream) = &self.stream else { return Ok(change) };
        let own = stream.node.attrs(Blocking::Allowed)?;
        Ok(Change { before: stream.attrs(&change.before, &own), after: stream.attrs(&change.after, &own) })
    }

    /// Sets the size of this stream, which its file's owner or who has it open for writing may.
    pub(super) fn resize_stream(
        &self,
        setter: &Setter<'_>,
        size: u64,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        if size > self.volume().limits().file_bytes_max {
            return Err(FsError::FileTooBig);
        }
        if !setter.is_open {
            let attrs = self.node.attrs(Blocking::Allowed)?;
            self.check_data(&attrs, setter.caller, Access::WRITE, Blocking::Allowed)?;
        }
        let set = SetAttrs { size: Some(size), ..SetAttrs::default() };
        let change = self.data().change_attrs(&|attrs| {
            self.check_claims(setter.by, setter.kind, || Span::to_end(size.min(attrs.size)))?;
            Ok(set)
        })?;
        self.require_data_sync(pending, SyncScope::All);
        self.data_changed(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wait;
    use crate::backend::durability::Durability;
    use crate::faulty::Faulty;
    use crate::file::{Disposition, OpenFile, Stability};
    use crate::memfs::MemFs;
    use crate::model::name::Name;
    use crate::model::volume_id::VolumeId;
    use crate::namespace::Export;
    use crate::volume::Volume;
    use crate::volume::streams::STREAM_NAME_BYTES_MAX;
    use std::ops::ControlFlow;

    fn new_storage() -> MemFs {
        MemFs::new(Arc::new(crate::Time::default))
    }

    /// The root of a volume on this storage.
    fn served(fs: &MemFs) -> File {
        let volume = Volume::new(VolumeId(1), "one", Arc::new(fs.clone()), Durability::Sync, 1);
        Arc::new(Export::new("/one", Arc::new(volume), Vec::new())).root()
    }

    /// A root that user 1 may write, and a file of user 1 in it.
    fn rig() -> (File, File, Caller) {
        let (root, user) = (served(&new_storage()), Caller::new(1, 1, []));
        let (mode, mut pending) =
            (SetAttrs { mode: Some(0o777), ..SetAttrs::default() }, PendingSync::default());
        root.set_attrs(&Caller::new(0, 0, []), &mode, None, &mut pending).unwrap();
        let file = make(&root, &user, b"file");
        (root, file, user)
    }

    fn make(root: &File, user: &Caller, name: &[u8]) -> File {
        let set = SetAttrs { mode: Some(0o644), ..SetAttrs::default() };
        root.create(user, name, Disposition::CreateNew, &set, &mut PendingSync::default()).unwrap().file
    }

    /// A stream with this content.
    fn put(file: &File, user: &Caller, name: &[u8], data: &[u8]) -> File {
        let mut pending = PendingSync::default();
        let stream = file.make_stream(user, name, &mut pending).unwrap();
        let (opened, _) = stream.open(user, Access::WRITE, Blocking::Allowed).unwrap();
        opened.write(0, data, Stability::File, &mut pending).unwrap();
        stream
    }

    fn streams(file: &File) -> Vec<(Vec<u8>, u64)> {
        let mut all = Vec::new();
        file.list_streams(&mut |name, size, _| all.push((name.to_vec(), size))).unwrap();
        all.sort();
        all
    }

    /// Directories of files with streams in the hidden tree, without what says where that was made.
    fn hidden(root: &File) -> usize {
        let Ok(tree) = root.node.lookup(Name::STREAMS, Blocking::Allowed) else { return 0 };
        let mut count = 0;
        let counted = tree.node.read_dir(0, false, &mut |entry| {
            count += usize::from(!entry.name.starts_with(b".") && !entry.name.starts_with(b"of-"));
            ControlFlow::Continue(())
        });
        assert_eq!(counted, Ok(true));
        count
    }

    #[test]
    fn a_stream_has_data_of_its_own_and_all_else_of_its_file() {
        let (root, file, user) = rig();
        let stream = put(&file, &user, b"s", b"stream");
        let (own, whole) = (stream.attrs(Blocking::Allowed).unwrap(), file.attrs(Blocking::Allowed).unwrap());
        assert_eq!((own.size, whole.size), (6, 0));
        assert_eq!(Attrs { size: 0, used: 0, ..own }, Attrs { used: 0, ..whole });
        assert!(stream.stream() != file.stream() && stream.key() == file.key() && !stream.is(&file));
        let of_dir = put(&root, &user, b"s", b"of a directory");
        assert_eq!(of_dir.attrs(Blocking::Allowed).unwrap().file_type, FileType::Regular);
        let (opened, _) = of_dir.open(&user, Access::READ.and(Access::WRITE), Blocking::Allowed).unwrap();
        let mut data = Vec::new();
        opened.read(0, 100, &mut data, Blocking::Allowed).unwrap();
        assert_eq!(data, b"of a directory");
        let set = SetAttrs { size: Some(2), ..SetAttrs::default() };
        let cut = opened.set_attrs(&user, &set, &mut PendingSync::default()).unwrap();
        assert_eq!((cut.before.size, cut.after.size, streams(&root)), (14, 2, vec![(b"s".to_vec(), 2)]));
    }

    #[test]
    fn changes_of_ranges_are_those_that_its_file_shows() {
        type Act = fn(&OpenFile<'_>, &OpenFile<'_>, &mut PendingSync) -> FsResult<Change>;
        let acts: [Act; 6] = [
            |to, _, pending| to.allocate(0, 10, Stability::Unstable, pending),
            |to, _, pending| to.preallocate(9000, Stability::Unstable, pending),
            |to, _, pending| to.deallocate(0, 10, Stability::Unstable, pending),
            |to, _, pending| to.zero(0, 10, Stability::Unstable, pending),
            |to, from, pending| {
                let span = crate::Span { source: 0, target: 0, len: 6 };
                from.copy_to(to, &span, Stability::Unstable, pending).map(|(_, change)| change)
            },
            |to, from, pending| {
                let span = crate::Span { source: 0, target: 0, len: 4096 };
                from.clone_to(to, &span, Stability::Unstable, pending)
            },
        ];
        let (_root, file, user) = rig();
        let [from, to] = [&b"from"[..], b"to"].map(|name| put(&file, &user, name, &[7; 4096]));
        let (from, _) = from.open(&user, Access::READ, Blocking::Allowed).unwrap();
        let (opened, _) = to.open(&user, Access::WRITE, Blocking::Allowed).unwrap();
        for (number, act) in acts.iter().enumerate() {
            let (then, mut pending) = (crate::Time { seconds: 77, nanos: 0 }, PendingSync::default());
            let set = SetAttrs { modified: Some(SetTime::To(then)), ..SetAttrs::default() };
            file.set_attrs(&user, &set, None, &mut pending).unwrap();
            let before = to.attrs(Blocking::Allowed).unwrap();
            let change = act(&opened, &from, &mut pending).unwrap();
            assert_eq!((change.before, change.before.modified), (before, then), "{number}");
            assert_eq!(change.after, to.attrs(Blocking::Allowed).unwrap(), "{number}");
            assert_eq!(change.after.modified, crate::Time::default(), "{number}");
        }
    }

    #[test]
    fn streams_follow_their_file_and_go_with_its_last_name() {
        let (root, file, user) = rig();
        put(&file, &user, b"s", b"stream");
        let mut pending = PendingSync::default();
        root.link(&user, &file, b"link", &mut pending).unwrap();
        root.rename(&user, b"file", &root, b"moved", &mut pending).unwrap();
        root.remove(&user, b"moved", &mut pending).unwrap();
        assert_eq!((streams(&file), hidden(&root)), (vec![(b"s".to_vec(), 6)], 1));
        root.remove(&user, b"link", &mut pending).unwrap();
        assert_eq!(hidden(&root), 0);
        // What is replaced is removed, and so are directories.
        let other = make(&root, &user, b"other");
        put(&other, &user, b"s", b"stream");
        make(&root, &user, b"new");
        root.rename(&user, b"new", &root, b"other", &mut pending).unwrap();
        assert_eq!(hidden(&root), 0);
        let dir = root.make_dir(&user, b"dir", &SetAttrs::default(), &mut pending).unwrap().file;
        put(&dir, &user, b"s", b"stream");
        root.remove_dir(&user, b"dir", &mut pending).unwrap();
        assert_eq!(hidden(&root), 0);
    }

    /// What has a name, if anything does, and how many names that has.
    fn named(root: &File, name: &[u8]) -> Option<(u64, u32)> {
        let found = root.node.lookup(Name::new(name).unwrap(), Blocking::Allowed).ok()?;
        Some((found.attrs.file_id, found.attrs.links))
    }

    #[test]
    fn a_link_takes_the_name_of_another_file_in_one_step() {
        let (root, file, user) = rig();
        let other = make(&root, &user, b"other");
        put(&other, &user, b"s", b"stream");
        let [file_id, other_id] = [&file, &other].map(|file| file.attrs(Blocking::Allowed).unwrap().file_id);
        let mut pending = PendingSync::default();
        let mut link =
            |by: &Caller, replaced| root.link_over(by, &file, (b"other", replaced), &mut pending).map(drop);
        assert_eq!(link(&user, file_id), Err(FsError::Wait(Wait::Recall)), "something else has the name");
        let mut reader = user.clone();
        reader.read_only = true;
        assert_eq!(link(&reader, other_id), Err(FsError::ReadOnly));
        assert_eq!((named(&root, b"other"), hidden(&root)), (Some((other_id, 1)), 1));
        assert_eq!(link(&user, other_id), Ok(()));
        for name in [&b"file"[..], b"other"] {
            assert_eq!(named(&root, name), Some((file_id, 2)));
        }
        assert_eq!(hidden(&root), 0, "the streams of what gave way have gone with it");
        root.remove(&user, b"other", &mut PendingSync::default()).unwrap();
        let gone = root.link_over(&user, &file, (b"other", other_id), &mut PendingSync::default());
        assert_eq!(
            (gone.map(drop), named(&root, b"file")),
            (Err(FsError::Wait(Wait::Recall)), Some((file_id, 1)))
        );
    }

    #[test]
    fn a_link_that_fails_replaces_nothing_and_leaves_nothing() {
        for lasts in [false, true] {
            let mut nth = 0;
            loop {
                nth += 1;
                let faulty = Faulty::new(Arc::new(new_storage()));
                let volume = Volume::new(VolumeId(1), "one", Arc::new(faulty.clone()), Durability::Sync, 1);
                let root = Arc::new(Export::new("/one", Arc::new(volume), Vec::new())).root();
                let (user, mut pending) = (Caller::new(0, 0, []), PendingSync::default());
                let [file, other] = [&b"file"[..], b"other"].map(|name| make(&root, &user, name));
                let [file_id, other_id] =
                    [&file, &other].map(|file| file.attrs(Blocking::Allowed).unwrap().file_id);
                let refused = faulty.refused();
                match lasts {
                    false => faulty.fail_at(nth, FsError::Io),
                    true => faulty.fail_from(nth, FsError::Io),
                }
                let linked = root.link_over(&user, &file, (b"other", other_id), &mut pending);
                faulty.heal();
                let by_now = named(&root, b"other").unwrap().0;
                if linked.is_err() {
                    assert!([file_id, other_id].contains(&by_now), "{nth}: something has the name");
                } else {
                    assert_eq!(by_now, file_id, "{nth}");
                }
                // What is left where nothing could be removed goes after the next start.
                while !root.volume().sweep_streams().unwrap() {}
                let names = if by_now == file_id { 2 } else { 1 };
                assert_eq!(named(&root, b"file"), Some((file_id, names)), "{nth}");
                if faulty.refused() == refused {
                    break;
                }
            }
            assert!(nth > 8, "some calls were refused");
        }
    }

    #[test]
    fn no_name_leads_to_the_hidden_tree() {
        let (root, file, user) = rig();
        put(&file, &user, b"s", b"stream");
        let (name, mut pending) = (Name::STREAMS.bytes(), PendingSync::default());
        let admin = Caller::new(0, 0, []);
        let dir = root.open_dir(&admin, Blocking::Allowed).unwrap();
        assert_eq!(dir.lookup(name, Blocking::Allowed).err(), Some(FsError::Access));
        root.read_dir(&admin, 0, true, &mut |entry| {
            assert_ne!(entry.name, name);
            ControlFlow::Continue(())
        })
        .unwrap();
        let set = SetAttrs::default();
        let refused = [
            root.make_dir(&admin, name, &set, &mut pending).err(),
            root.create(&admin, name, Disposition::OpenOrCreate, &set, &mut pending).err(),
            root.link(&admin, &file, name, &mut pending).err(),
            root.remove_dir(&admin, name, &mut pending).err(),
            root.rename(&admin, name, &root, b"mine", &mut pending).err(),
            root.rename(&admin, b"file", &root, name, &mut pending).err(),
        ];
        assert_eq!(refused, [Some(FsError::Access); 6]);
    }

    #[test]
    fn what_others_have_put_in_the_place_of_the_tree_is_not_used() {
        let (root, file, user) = rig();
        let theirs = crate::NewInode { mode: 0o700, uid: 2, gid: 2, times: None, size: 0 };
        root.node.make_dir(Name::STREAMS, &|_| Ok(theirs)).unwrap();
        let made = file.make_stream(&user, b"s", &mut PendingSync::default());
        assert_eq!(made.err(), Some(FsError::NotSupported));
        root.node.remove_dir(Name::STREAMS, &|_| Ok(())).unwrap();
        let link = crate::Special::Symlink(b"/etc");
        let ours = crate::NewInode { uid: 0, gid: 0, ..theirs };
        root.node.make_special(Name::STREAMS, link, &|_| Ok(ours)).unwrap();
        let made = file.make_stream(&user, b"s", &mut PendingSync::default());
        assert_eq!(made.err(), Some(FsError::NotSupported));
    }

    #[test]
    fn those_may_who_may_write_the_file() {
        let (_root, file, user) = rig();
        let (other, mut pending) = (Caller::new(2, 2, []), PendingSync::default());
        assert_eq!(file.make_stream(&other, b"s", &mut pending).err(), Some(FsError::Access));
        let stream = put(&file, &user, b"s", b"stream");
        assert!(stream.open(&other, Access::READ, Blocking::Allowed).is_ok());
        assert_eq!(stream.open(&other, Access::WRITE, Blocking::Allowed).err(), Some(FsError::Access));
        assert_eq!(file.rename_stream(&other, b"s", b"t", false, &mut pending), Err(FsError::Access));
        assert_eq!(file.remove_streams(&other, &mut pending), Err(FsError::Access));
        let mut reader = user;
        reader.read_only = true;
        assert_eq!(file.make_stream(&reader, b"t", &mut pending).err(), Some(FsError::ReadOnly));
    }

    #[test]
    fn a_file_has_so_many_streams_and_names_so_many_bytes() {
        let (_root, file, user) = rig();
        let mut pending = PendingSync::default();
        let long = vec![b'n'; STREAM_NAME_BYTES_MAX + 1];
        assert_eq!(file.make_stream(&user, &long, &mut pending).err(), Some(FsError::NameTooLong));
        for name in [&b""[..], b"a/b", b"a\0b"] {
            assert_eq!(file.make_stream(&user, name, &mut pending).err(), Some(FsError::Invalid), "{name:?}");
        }
        for number in 0..STREAMS_MAX {
            file.make_stream(&user, format!("{number}").as_bytes(), &mut pending).unwrap();
        }
        assert_eq!(file.make_stream(&user, b"more", &mut pending).err(), Some(FsError::NoSpace));
        assert_eq!(file.make_stream(&user, b"0", &mut pending).err(), Some(FsError::NoSpace));
        file.remove_streams(&user, &mut pending).unwrap();
        put(&file, &user, b"..", b"more");
        assert_eq!(streams(&file), [(b"..".to_vec(), 4)]);
    }

    #[test]
    fn streams_that_were_removed_stay_away_after_a_power_cut() {
        let removals: [fn(&File, &Caller, &File); 2] = [
            |file, user, _| {
                let mut pending = PendingSync::default();
                file.remove_streams(user, &mut pending).unwrap();
                pending.sync_all().unwrap();
            },
            |file, _, stream| file.volume().remove_stream(&file.key(), stream.stream(), b"s").unwrap(),
        ];
        for remove in removals {
            let (fs, user) = (new_storage(), Caller::new(0, 0, []));
            let file = make(&served(&fs), &user, b"file");
            let stream = put(&file, &user, b"s", b"stream");
            file.volume().sync().unwrap();
            let before = file.attrs(Blocking::Allowed).unwrap();
            remove(&file, &user, &stream);
            let root = served(&fs.crash());
            let dir = root.open_dir(&user, Blocking::Allowed).unwrap();
            let after = dir.lookup(b"file", Blocking::Allowed).unwrap();
            assert_eq!(streams(&after.file), []);
            assert!(after.attrs.change > before.change, "whatever is remembered of the file is void");
        }
    }

    #[test]
    fn streams_of_what_went_otherwise_are_found_after_a_start() {
        let (root, file, user) = rig();
        put(&file, &user, b"s", b"stream");
        put(&make(&root, &user, b"stays"), &user, b"s", b"stream");
        root.node.remove(Name::new(b"file").unwrap(), &|_| Ok(())).unwrap();
        assert_eq!(hidden(&root), 2);
        while !root.volume().sweep_streams().unwrap() {}
        assert_eq!(hidden(&root), 1);
    }

    /// The marks in the hidden tree.
    fn marks(root: &File) -> Vec<Vec<u8>> {
        let tree = root.node.lookup(Name::STREAMS, Blocking::Allowed).unwrap().node;
        let mut marks = Vec::new();
        tree.read_dir(0, false, &mut |entry| {
            marks.extend(Some(entry.name.to_vec()).filter(|name| name.starts_with(b"of-")));
            ControlFlow::Continue(())
        })
        .unwrap();
        marks
    }

    #[test]
    fn a_tree_that_was_made_elsewhere_is_not_swept() {
        let fs = new_storage();
        let (root, user) = (served(&fs), Caller::new(0, 0, []));
        let file = make(&root, &user, b"file");
        put(&file, &user, b"s", b"stream");
        let [mark] = &marks(&root)[..] else { panic!("one mark") };
        let tree = root.node.lookup(Name::STREAMS, Blocking::Allowed).unwrap().node;
        // As a copy has it, where the tree and its files are others.
        tree.remove(Name::new(mark).unwrap(), &|_| Ok(())).unwrap();
        let other = String::from_utf8(mark.clone()).unwrap().replace('0', "1");
        tree.create(Name::new(other.as_bytes()).unwrap(), &|_| Ok(streams::own(FileType::Regular))).unwrap();
        root.node.remove(Name::new(b"file").unwrap(), &|_| Ok(())).unwrap();
        while !root.volume().sweep_streams().unwrap() {}
        assert_eq!(hidden(&root), 1);
        // Once nothing of what was copied is left, it is as good as one that was made here.
        root.volume().remove_streams(&file.key(), &mut |_| ()).unwrap();
        let root = served(&fs);
        while !root.volume().sweep_streams().unwrap() {}
        assert!(marks(&root).contains(mark));
        put(&make(&root, &user, b"file"), &user, b"s", b"stream");
        root.node.remove(Name::new(b"file").unwrap(), &|_| Ok(())).unwrap();
        let root = served(&fs);
        while !root.volume().sweep_streams().unwrap() {}
        assert_eq!(hidden(&root), 0);
    }
}
