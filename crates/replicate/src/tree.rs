//! The tree of a backup: inodes, entries, extents and streams by the keys of their files.

use crate::error::{Error, Result};
use crate::format::manifest::Manifest;
use crate::format::names;
use crate::format::records::{Extent, Inode, decode_entry};
use crate::format::sort_key::{self, Kind};
use crate::vault::index::{Index, Search, extents_of};
use crate::vault::{Vault, damaged};
use vfs::{FileKey, FileType};

pub(crate) struct Tree<'v> {
    search: Search<'v>,
    name: String,
    pub(crate) root: FileKey,
}

/// A name in a directory of a backup.
pub(crate) struct TreeEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) key: FileKey,
    pub(crate) file_type: FileType,
}

/// The data of a file or a stream: the prefix of its extents, and the position in them.
pub(crate) struct Content {
    prefix: Vec<u8>,
    after: Option<Vec<u8>>,
}

impl Content {
    pub(crate) fn of_file(key: &FileKey) -> Self {
        Self { prefix: sort_key::content(&sort_key::inode(key)), after: None }
    }

    pub(crate) fn of_stream(key: &FileKey, name: &[u8]) -> Self {
        Self { prefix: sort_key::content(&sort_key::stream(key, name)), after: None }
    }
}

impl<'v> Tree<'v> {
    pub(crate) fn open(vault: &'v Vault, manifest: &Manifest) -> Result<Self> {
        let search = Search::new(vault, Index::load(vault, manifest)?);
        Ok(Self { search, name: names::manifest(manifest.id), root: manifest.root })
    }

    fn malformed(&self) -> Error {
        damaged(&self.name, "its index is malformed")
    }

    pub(crate) fn inode(&mut self, key: &FileKey) -> Result<Inode> {
        let value = self.search.get(&sort_key::inode(key))?;
        value.and_then(|value| Inode::decode(&value)).ok_or_else(|| self.malformed())
    }

    /// The next entry of a directory in the order of names.
    pub(crate) fn next_entry(&mut self, dir: &FileKey, after: Option<&[u8]>) -> Result<Option<TreeEntry>> {
        let prefix = sort_key::entries(dir);
        let after = after.map(|name| sort_key::entry(dir, name));
        let Some((key, value)) = self.search.next_below(&prefix, after.as_deref())? else { return Ok(None) };
        let (object, file_type) = decode_entry(&value).ok_or_else(|| self.malformed())?;
        Ok(Some(TreeEntry { name: key[prefix.len()..].to_vec(), key: object, file_type }))
    }

    pub(crate) fn entry(&mut self, dir: &FileKey, name: &[u8]) -> Result<Option<TreeEntry>> {
        let Some(value) = self.search.get(&sort_key::entry(dir, name))? else { return Ok(None) };
        let (key, file_type) = decode_entry(&value).ok_or_else(|| self.malformed())?;
        Ok(Some(TreeEntry { name: name.to_vec(), key, file_type }))
    }

    /// The next stream of a file: its name and its inode.
    pub(crate) fn next_stream(
        &mut self,
        key: &FileKey,
        after: Option<&[u8]>,
    ) -> Result<Option<(Vec<u8>, Inode)>> {
        let prefix = sort_key::streams(key);
        // Past all extents of the stream before.
        let mut after = after.map(|name| [&prefix[..], name, &[0, u8::MAX]].concat());
        while let Some((found, value)) = self.search.next_below(&prefix, after.as_deref())? {
            if let Some((_, Kind::Stream(name))) = sort_key::parse(&found) {
                let inode = Inode::decode(&value).ok_or_else(|| self.malformed())?;
                return Ok(Some((name.to_vec(), inode)));
            }
            after = Some(found);
        }
        Ok(None)
    }

    /// The next extents of a file or stream; empty at the end.
    pub(crate) fn next_extents(&mut self, content: &mut Content) -> Result<Vec<Extent>> {
        let found = self.search.next_below(&content.prefix, content.after.as_deref())?;
        let Some((key, value)) = found else { return Ok(Vec::new()) };
        let extents = extents_of(&key, &value)?;
        content.after = Some(key);
        Ok(extents)
    }

    pub(crate) fn read(&mut self, extent: &Extent) -> Result<Vec<u8>> {
        self.search.chunks.read(&extent.place, extent.len, &extent.id)
    }
}
