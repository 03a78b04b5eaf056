//! Keys of an index's records. Their order as bytes is the order of the index: all records of a file follow each other.

use vfs::FileKey;

const INODE: u8 = 0;
const EXTENTS: u8 = 1;
const ENTRY: u8 = 2;
const STREAM: u8 = 3;

/// The meaning of a record, from its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    Inode,
    Extents,
    Entry(&'a [u8]),
    Stream(&'a [u8]),
    StreamExtents,
}

pub(crate) fn of_file(key: &FileKey) -> Vec<u8> {
    let bytes = key.bytes();
    // At most `vfs::KEY_BYTES_MAX`.
    let len = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    [&[len], bytes].concat()
}

pub(crate) fn inode(key: &FileKey) -> Vec<u8> {
    [&of_file(key)[..], &[INODE]].concat()
}

pub(crate) fn entries(dir: &FileKey) -> Vec<u8> {
    [&of_file(dir)[..], &[ENTRY]].concat()
}

pub(crate) fn entry(dir: &FileKey, name: &[u8]) -> Vec<u8> {
    [&entries(dir)[..], name].concat()
}

pub(crate) fn streams(key: &FileKey) -> Vec<u8> {
    [&of_file(key)[..], &[STREAM]].concat()
}

/// The name of a stream has no zero byte.
pub(crate) fn stream(key: &FileKey, name: &[u8]) -> Vec<u8> {
    [&streams(key)[..], name, &[0, INODE]].concat()
}

/// The prefix of the extents whose file or stream has this inode record.
pub(crate) fn content(inode: &[u8]) -> Vec<u8> {
    let mut prefix = inode.to_vec();
    if let Some(last) = prefix.last_mut() {
        *last = EXTENTS;
    }
    prefix
}

pub(crate) fn extents(content: &[u8], group: u64) -> Vec<u8> {
    [content, &group.to_be_bytes()].concat()
}

pub(crate) fn parse(sort_key: &[u8]) -> Option<(FileKey, Kind<'_>)> {
    let (&len, rest) = sort_key.split_first()?;
    let (key, rest) = rest.split_at_checked(usize::from(len))?;
    let key = FileKey::new(key).ok()?;
    let kind = match rest.split_first()? {
        (&INODE, []) => Kind::Inode,
        (&EXTENTS, group) if group.len() == 8 => Kind::Extents,
        (&ENTRY, name) if !name.is_empty() => Kind::Entry(name),
        (&STREAM, rest) => {
            let end = rest.iter().position(|&byte| byte == 0).filter(|&end| end > 0)?;
            match &rest[end + 1..] {
                [INODE] => Kind::Stream(&rest[..end]),
                [EXTENTS, group @ ..] if group.len() == 8 => Kind::StreamExtents,
                _ => return None,
            }
        }
        _ => return None,
    };
    Some((key, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_file_follow_each_other() {
        let key = FileKey::new(b"k").unwrap();
        let later = FileKey::new(b"k2").unwrap();
        let sorted = [
            inode(&key),
            extents(&content(&inode(&key)), 0),
            extents(&content(&inode(&key)), 256),
            entry(&key, b"a"),
            entry(&key, b"a\xff"),
            stream(&key, b"a"),
            extents(&content(&stream(&key, b"a")), 0),
            stream(&key, b"ab"),
            inode(&later),
        ];
        assert!(sorted.is_sorted());
        let kinds: Vec<_> = sorted.iter().map(|sort_key| parse(sort_key).unwrap()).collect();
        assert_eq!(kinds[0], (key, Kind::Inode));
        assert_eq!(kinds[2], (key, Kind::Extents));
        assert_eq!(kinds[4], (key, Kind::Entry(b"a\xff")));
        assert_eq!(kinds[5], (key, Kind::Stream(b"a")));
        assert_eq!(kinds[6], (key, Kind::StreamExtents));
        assert_eq!(kinds[8], (later, Kind::Inode));
    }
}
