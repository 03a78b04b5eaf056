//! Records of an index: inodes, extents, and entries of directories.

use super::bytes::{Reader, Writer};
use super::names::{Hash, PackId};
use std::ops::Deref;
use vfs::volume::metadata::Metadata;
use vfs::{Attrs, Device, FileKey, FileType, PosixAcl, Time, ViewId};

/// The place of a chunk or a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pack: PackId,
    pub(crate) offset: u32,
    /// Stored bytes.
    pub(crate) len: u32,
}

/// A range of a file that has data, and lies in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) id: Hash,
    pub(crate) place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) metadata: Metadata,
    /// The target of a symbolic link.
    pub(crate) target: Vec<u8>,
}

impl Deref for Inode {
    type Target = Metadata;

    fn deref(&self) -> &Metadata {
        &self.metadata
    }
}

const TYPES: [FileType; 7] = [
    FileType::Regular,
    FileType::Directory,
    FileType::Symlink,
    FileType::Block,
    FileType::Character,
    FileType::Fifo,
    FileType::Socket,
];

pub(crate) fn type_code(file_type: FileType) -> u8 {
    let at = TYPES.iter().position(|&one| one == file_type);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}

pub(crate) fn file_type(code: u8) -> Option<FileType> {
    TYPES.get(usize::from(code)).copied()
}

impl Place {
    fn write(&self, writer: &mut Writer) {
        writer.raw(&self.pack.0);
        writer.int(self.offset.into());
        writer.int(self.len.into());
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { pack: PackId(reader.array()?), offset: reader.int32()?, len: reader.int32()? })
    }
}

pub(crate) fn write_attrs(writer: &mut Writer, attrs: &Attrs) {
    writer.u8(type_code(attrs.file_type));
    let device = attrs.device;
    for value in [attrs.mode, attrs.uid, attrs.gid, attrs.links, device.major, device.minor] {
        writer.int(value.into());
    }
    writer.int(attrs.size);
    for time in [attrs.accessed, attrs.modified, attrs.changed] {
        writer.time(time);
    }
    writer.u8(attrs.born.is_some().into());
    if let Some(born) = attrs.born {
        writer.time(born);
    }
}

/// Attributes without the numbers that mean nothing elsewhere.
pub(crate) fn read_attrs(reader: &mut Reader<'_>) -> Option<Attrs> {
    Some(Attrs {
        file_type: file_type(reader.u8()?)?,
        mode: reader.int32()?,
        uid: reader.int32()?,
        gid: reader.int32()?,
        links: reader.int32()?,
        device: Device { major: reader.int32()?, minor: reader.int32()? },
        size: reader.int()?,
        accessed: reader.time()?,
        modified: reader.time()?,
        changed: reader.time()?,
        born: match reader.u8()? {
            0 => None,
            1 => Some(reader.time()?),
            _ => return None,
        },
        used: 0,
        file_id: 0,
        change: 0,
        view: ViewId::LIVE,
    })
}

impl Inode {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        write_attrs(&mut writer, &self.attrs);
        writer.bytes(&self.target);
        writer.len(self.xattrs.len());
        for (name, value) in &self.xattrs {
            writer.bytes(name);
            writer.bytes(value);
        }
        for acl in [&self.access_acl, &self.default_acl] {
            writer.bytes(&acl.as_ref().map_or_else(Vec::new, PosixAcl::to_xattr));
        }
        writer.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let attrs = read_attrs(&mut reader)?;
        let target = reader.bytes()?.to_vec();
        let mut xattrs = Vec::new();
        for _ in 0..reader.len()? {
            xattrs.push((reader.bytes()?.to_vec(), reader.bytes()?.to_vec()));
        }
        let mut acl = || match reader.bytes()? {
            [] => Some(None),
            value => PosixAcl::from_xattr(value).ok(),
        };
        let (access_acl, default_acl) = (acl()?, acl()?);
        let metadata = Metadata { attrs, xattrs, access_acl, default_acl };
        reader.end(Self { metadata, target })
    }
}

/// Encodes a group of extents, whose offsets follow `start`.
pub(crate) fn encode_extents(start: u64, extents: &[Extent]) -> Vec<u8> {
    let mut writer = Writer::default();
    for extent in extents {
        writer.int(extent.offset - start);
        writer.int(extent.len.into());
        writer.raw(&extent.id.0);
        extent.place.write(&mut writer);
    }
    writer.0
}

pub(crate) fn decode_extents(start: u64, bytes: &[u8]) -> Option<Vec<Extent>> {
    let mut reader = Reader(bytes);
    let mut extents = Vec::new();
    while !reader.is_empty() {
        let offset = start.checked_add(reader.int()?)?;
        let (len, id) = (reader.int32()?, Hash(reader.array()?));
        offset.checked_add(len.into())?;
        extents.push(Extent { offset, len, id, place: Place::read(&mut reader)? });
    }
    Some(extents)
}

/// The object of an entry.
pub(crate) fn encode_entry(key: &FileKey, file_type: FileType) -> Vec<u8> {
    [&[type_code(file_type)], key.bytes()].concat()
}

pub(crate) fn decode_entry(bytes: &[u8]) -> Option<(FileKey, FileType)> {
    let (&code, key) = bytes.split_first()?;
    Some((FileKey::new(key).ok()?, file_type(code)?))
}

/// Whether the file is unchanged as far as its attributes say. Reading is no change.
pub(crate) fn is_same_state(one: &Attrs, other: &Attrs) -> bool {
    let state = |attrs: &Attrs| Attrs {
        accessed: Time::default(),
        used: 0,
        file_id: 0,
        change: 0,
        view: ViewId::LIVE,
        ..*attrs
    };
    state(one) == state(other)
}

/// A leaf in the list of all leaves of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeafRef {
    pub(crate) first: Vec<u8>,
    pub(crate) id: Hash,
    pub(crate) place: Place,
    /// Bytes of the leaf when it is decompressed.
    pub(crate) len: u32,
}

impl LeafRef {
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.bytes(&self.first);
        writer.raw(&self.id.0);
        self.place.write(writer);
        writer.int(self.len.into());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let first = reader.bytes()?.to_vec();
        let id = Hash(reader.array()?);
        let place = Place::read(reader)?;
        Some(Self { first, id, place, len: reader.int32()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attrs() -> Attrs {
        let time = |seconds| Time { seconds, nanos: 5 };
        Attrs {
            file_type: FileType::Character,
            mode: 0o4755,
            links: 3,
            uid: 1,
            gid: u32::MAX - 1,
            size: u64::MAX,
            used: 0,
            device: Device { major: 4, minor: 600_000 },
            file_id: 0,
            accessed: time(-1),
            modified: time(2),
            changed: time(3),
            change: 0,
            born: Some(time(i64::MIN)),
            view: ViewId::LIVE,
        }
    }

    #[test]
    fn inode_comes_back() {
        let acl = PosixAcl {
            owner: 7,
            group: 5,
            mask: Some(5),
            other: 0,
            users: [(9, 6)].into(),
            groups: [].into(),
        };
        let inode = Inode {
            metadata: Metadata {
                attrs: attrs(),
                xattrs: vec![(b"a".to_vec(), vec![0; 300]), (b"b".to_vec(), Vec::new())],
                access_acl: Some(acl),
                default_acl: None,
            },
            target: b"to\xff".to_vec(),
        };
        let bytes = inode.encode();
        assert_eq!(Inode::decode(&bytes).as_ref(), Some(&inode));
        for len in 0..bytes.len() {
            assert_eq!(Inode::decode(&bytes[..len]), None);
        }
    }

    #[test]
    fn reading_is_no_change_and_anything_else_is() {
        let one = attrs();
        assert!(is_same_state(&one, &Attrs { accessed: Time::default(), change: 9, ..one }));
        assert!(!is_same_state(&one, &Attrs { changed: Time::default(), ..one }));
        assert!(!is_same_state(&one, &Attrs { size: 1, ..one }));
        assert!(!is_same_state(&one, &Attrs { links: 1, ..one }));
    }

    #[test]
    fn extents_come_back_with_their_offsets() {
        let place = Place { pack: PackId([3; 20]), offset: 32, len: 70_000 };
        let extent = |offset| Extent { offset, len: 1 << 20, id: Hash([9; 32]), place };
        let extents = [extent(1 << 40), extent((1 << 40) + (5 << 20))];
        assert_eq!(decode_extents(1 << 40, &encode_extents(1 << 40, &extents)), Some(extents.to_vec()));
    }
}
