//! Named streams of files and directories. A stream has the attributes and the rights of its file, and data of its own.

use super::attr::Setter;
use super::core::{File, NamedStream};
use crate::acl::access::Access;
use crate::backend::durability::PendingSync;
use crate::backend::{AuthorizeSetattr, Blocking, NodeRef, SyncScope};
use crate::claims::{IoKind, Span, Stream};
use crate::error::{FsError, FsResult};
use crate::model::attrs::{Attrs, Change, FileType, SetAttrs, SetTime};
use crate::model::caller::Caller;
use crate::volume::streams::{self, STREAMS_MAX, StoredName};
use std::sync::Arc;

/// Receives the name of a stream, its size, and its storage in bytes.
pub type StreamSink<'s> = dyn FnMut(&[u8], u64, u64) + 's;

impl NamedStream {
    /// Merges the attributes of a file and of its stream's data, `own`.
    pub(super) fn attrs(&self, file: &Attrs, own: &Attrs) -> Attrs {
        Attrs { file_type: FileType::Regular, size: own.size, used: own.used, ..*file }
    }
}

impl File {
    /// The number of this stream in the table of claims; the default for the file's own data.
    #[inline]
    pub fn stream(&self) -> Stream {
        self.stream.as_ref().map_or(Stream::default(), |stream| stream.number)
    }

    #[inline]
    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    pub fn has_lost_stream(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| streams::is_gone(&stream.node))
    }

    /// Returns the file of this stream; a file returns itself.
    #[must_use]
    pub fn of_stream(&self) -> Self {
        self.beside(NodeRef::clone(&self.node))
    }

    /// Returns the stream of this name. A caller that finds the file finds its streams.
    pub fn find_stream(&self, name: &[u8]) -> FsResult<Self> {
        let stored = StoredName::new(name)?;
        let dir = self.volume().streams_of(&self.key())?.ok_or(FsError::NotFound)?;
        let found = dir.lookup(stored.name()?, Blocking::Allowed)?;
        self.with_stream(found.node, &found.attrs)
    }

    pub fn list_streams(&self, sink: &mut StreamSink<'_>) -> FsResult<()> {
        match self.volume().streams_of(&self.key())? {
            Some(dir) => streams::list(&dir, &mut |name, attrs| sink(name, attrs.size, attrs.used)),
            None => Ok(()),
        }
    }

    /// Makes a stream without data. Needs the right to write the file.
    pub fn make_stream(&self, caller: &Caller, name: &[u8], pending: &mut PendingSync) -> FsResult<Self> {
        let stored = StoredName::new(name)?;
        let volume = self.volume();
        let _changing = volume.extra_attrs_cache().slot(&self.key()).lock_change();
        self.check_streams_change(caller)?;
        // The file's times change.
        self.check_claims(caller.by, IoKind::SetAttrs, || Span::ALL)?;
        let dir = volume.make_streams_of(&self.key(), &mut |dir| {
            volume.require_sync(pending, dir, SyncScope::All);
        })?;
        let mut count = 0;
        streams::list(&dir, &mut |_, _| count += 1)?;
        if count >= STREAMS_MAX {
            return Err(FsError::NoSpace);
        }
        let file = self.node.attrs(Blocking::Allowed)?;
        let made = dir.create(stored.name()?, &|_| Ok(streams::of_file(&file)))?;
        // Another client may have deleted the file meanwhile, with all its streams.
        if self.node.attrs(Blocking::Allowed).map_or(true, |attrs| attrs.links == 0) {
            dir.remove(stored.name()?, &|_| Ok(()))?;
            return Err(FsError::Stale);
        }
        volume.require_sync(pending, &dir, SyncScope::All);
        volume.note_streams_changed(&self.node, pending)?;
        self.with_stream(made.found.node, &made.found.attrs)
    }

    /// Renames a stream of this file; [`FsError::Exists`] if another stream has the name and may not be replaced.
    /// Recalls caches of the stream first, and with them handles that clients cache by the old name.
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
        let _changing = volume.extra_attrs_cache().slot(&self.key()).lock_change();
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

    /// Removes all streams of this file, as when a new file replaces it. Needs the right to write the file.
    pub fn remove_streams(&self, caller: &Caller, pending: &mut PendingSync) -> FsResult<()> {
        self.check_streams_change(caller)?;
        let volume = self.volume();
        let had_any = volume.remove_streams(&self.key(), &mut |dir| {
            volume.require_sync(pending, dir, SyncScope::All);
        })?;
        if had_any { volume.note_streams_changed(&self.node, pending) } else { Ok(()) }
    }

    /// Changes the owners of this file and of its streams, all or none, as `authorize` decides for the file.
    pub(super) fn change_owners(
        &self,
        authorize: AuthorizeSetattr<'_>,
        pending: &mut PendingSync,
    ) -> FsResult<Change> {
        let volume = self.volume();
        let _changing = volume.extra_attrs_cache().slot(&self.key()).lock_change();
        let set = authorize(&self.node.attrs(Blocking::Allowed)?)?;
        let given = volume.give_streams(&self.key(), set.uid, set.gid)?;
        match self.node.change_attrs(authorize) {
            Ok(change) => {
                given.require_sync(volume, pending);
                Ok(change)
            }
            Err(error) => {
                given.undo();
                Err(error)
            }
        }
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

    fn check_streams_change(&self, caller: &Caller) -> FsResult<()> {
        self.check_writable(caller)?;
        let attrs = self.node.attrs(Blocking::Allowed)?;
        match attrs.file_type {
            FileType::Regular | FileType::Directory => {
                self.check_data(&attrs, caller, Access::WRITE, Blocking::Allowed)
            }
            _ => Err(FsError::NotSupported),
        }
    }

    pub(super) fn require_data_sync(&self, pending: &mut PendingSync, scope: SyncScope) {
        self.volume().require_sync(pending, self.data(), scope);
    }

    /// Translates a change of a stream's data into a change of the visible attributes: the file is modified (MS-FSA
    /// §2.1.5.4).
    pub(super) fn data_changed(&self, change: Change) -> FsResult<Change> {
        let Some(stream) = &self.stream else { return Ok(change) };
        let modified = SetAttrs { modified: Some(SetTime::Now), ..SetAttrs::default() };
        let file = self.node.set_attrs(&modified)?;
        Ok(Change {
            before: stream.attrs(&file.before, &change.before),
            after: stream.attrs(&file.after, &change.after),
        })
    }

    pub(super) fn shown_change(&self, change: Change) -> FsResult<Change> {
        let Some(stream) = &self.stream else { return Ok(change) };
        let own = stream.node.attrs(Blocking::Allowed)?;
        Ok(Change { before: stream.attrs(&change.before, &own), after: stream.attrs(&change.after, &own) })
    }

    /// Sets the size of this stream, for the file's owner or an open for writing.
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
