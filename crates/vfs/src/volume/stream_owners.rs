//! Owners of streams: a stream counts for the user and the group of its file, so it follows a change of them.

use super::Volume;
use super::streams::stream_nodes;
use crate::backend::durability::PendingSync;
use crate::backend::{Blocking, NodeRef, SyncScope};
use crate::error::FsResult;
use crate::file_key::FileKey;
use crate::model::attrs::SetAttrs;

/// The streams of a file that have got new owners, and their owners before.
#[derive(Default)]
pub(crate) struct GivenStreams(Vec<(NodeRef, SetAttrs)>);

impl GivenStreams {
    /// Gives the streams back, if the file itself keeps its owners. A stream that cannot be given back, because the old
    /// owner has no room by now, stays counted for the new one.
    pub(crate) fn undo(self) {
        for (stream, owners) in self.0 {
            let _ = stream.set_attrs(&owners);
        }
    }

    pub(crate) fn require_sync(&self, volume: &Volume, pending: &mut PendingSync) {
        for (stream, _) in &self.0 {
            volume.require_sync(pending, stream, SyncScope::All);
        }
    }
}

impl Volume {
    /// Gives all streams of a file to these owners, or none. The caller has locked the file's changes.
    pub(crate) fn give_streams(
        &self,
        key: &FileKey,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> FsResult<GivenStreams> {
        let mut given = GivenStreams::default();
        let Some(dir) = self.streams_of(key)? else { return Ok(given) };
        let owners = SetAttrs { uid, gid, ..SetAttrs::default() };
        for stream in stream_nodes(&dir)? {
            let changed = stream.attrs(Blocking::Allowed).and_then(|before| {
                let is_new =
                    uid.is_some_and(|uid| uid != before.uid) || gid.is_some_and(|gid| gid != before.gid);
                if is_new {
                    stream.set_attrs(&owners)?;
                    let old =
                        SetAttrs { uid: Some(before.uid), gid: Some(before.gid), ..SetAttrs::default() };
                    given.0.push((stream, old));
                }
                Ok(())
            });
            if let Err(error) = changed {
                given.undo();
                return Err(error);
            }
        }
        Ok(given)
    }
}
