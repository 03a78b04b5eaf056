//! Quotas of users: the query of MS-SMB2 §2.2.37.1 and its results.

use crate::chain::{self, ChainWriter};
use crate::reader::SHORT;
use crate::security::Sid;
use crate::sets::bit_set;
use crate::{Decode, Encode, FileTime, Malformed, Reader, Writer};

const ALIGNMENT: usize = 8;
const LIST_ALIGNMENT: usize = 4;
/// `SidListLength` and `StartSidLength` bound the buffer; more SIDs than this are refused.
pub const SIDS_MAX: usize = 1024;

bit_set! {
    /// `FileSystemControlFlags`, MS-FSCC §2.5.2.
    pub struct QuotaControlFlags: u32 {
        TRACK = 0x1,
        ENFORCE = 0x2,
    }
}

/// `SMB2_QUERY_QUOTA_INFO`, MS-SMB2 §2.2.37.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryQuota {
    pub return_single: bool,
    pub restart_scan: bool,
    /// The users of the query; none for all.
    pub sids: Vec<Sid>,
    /// The first user of the list.
    pub start: Option<Sid>,
}

impl Decode<'_> for QueryQuota {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let [return_single, restart_scan] = [u8::decode(r)?, u8::decode(r)?];
        r.bytes(2)?;
        let mut length = || Ok(usize::try_from(u32::decode(r)?).unwrap_or(usize::MAX));
        let [list, start, offset] = [length()?, length()?, length()?];
        let buffer = r.rest();
        let sids =
            requested(buffer.get(..list).ok_or(SHORT)?).take(SIDS_MAX + 1).collect::<Result<Vec<_>, _>>()?;
        if sids.len() > SIDS_MAX {
            return Err(Malformed("more SIDs than a request has"));
        }
        let start = match start {
            0 => None,
            length => {
                let end = offset.checked_add(length).ok_or(SHORT)?;
                Some(Sid::from_bytes(buffer.get(offset..end).ok_or(SHORT)?)?)
            }
        };
        Ok(Self { return_single: return_single != 0, restart_scan: restart_scan != 0, sids, start })
    }
}

impl Encode for QueryQuota {
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(&[self.return_single.into(), self.restart_scan.into(), 0, 0]);
        let mut buffer = Vec::new();
        let mut list = Writer::new(&mut buffer);
        let mut chain = ChainWriter::new(LIST_ALIGNMENT, &list, usize::MAX);
        for sid in &self.sids {
            chain.push(&mut list, |w| {
                w.length::<u32>(sid.as_bytes().len());
                sid.encode(w);
            });
        }
        let start = self.start.map_or_else(Vec::new, |sid| sid.to_bytes());
        [buffer.len(), start.len(), if start.is_empty() { 0 } else { buffer.len() }]
            .into_iter()
            .for_each(|length| w.length::<u32>(length));
        w.bytes(&buffer);
        w.bytes(&start);
    }
}

/// Parses a list of `FILE_GET_QUOTA_INFORMATION`, MS-FSCC §2.4.40.1.
fn requested(bytes: &[u8]) -> impl Iterator<Item = Result<Sid, Malformed>> {
    chain::entries(LIST_ALIGNMENT, bytes).map(|entry| {
        let mut r = Reader::new(entry?.get(4..).ok_or(SHORT)?);
        let length = usize::try_from(u32::decode(&mut r)?).unwrap_or(usize::MAX);
        if length > r.rest().len() {
            return Err(SHORT);
        }
        Sid::from_bytes(r.bytes(length)?)
    })
}

/// `FILE_QUOTA_INFORMATION`, MS-FSCC §2.4.40, without `NextEntryOffset`. Limits are signed on the wire; -1 means no
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaInformation {
    pub change_time: FileTime,
    pub quota_used: i64,
    pub quota_threshold: i64,
    pub quota_limit: i64,
    pub sid: Sid,
}

impl Encode for QuotaInformation {
    fn encode(&self, w: &mut Writer<'_>) {
        w.length::<u32>(self.sid.as_bytes().len());
        self.change_time.encode(w);
        self.quota_used.encode(w);
        self.quota_threshold.encode(w);
        self.quota_limit.encode(w);
        self.sid.encode(w);
    }
}

impl Decode<'_> for QuotaInformation {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = usize::try_from(u32::decode(r)?).unwrap_or(usize::MAX);
        let change_time = FileTime::decode(r)?;
        let [quota_used, quota_threshold, quota_limit] = [i64::decode(r)?, i64::decode(r)?, i64::decode(r)?];
        if length > r.rest().len() {
            return Err(SHORT);
        }
        let sid = Sid::from_bytes(r.bytes(length)?)?;
        Ok(Self { change_time, quota_used, quota_threshold, quota_limit, sid })
    }
}

/// A chain of [`QuotaInformation`].
#[derive(Debug)]
pub struct QuotaWriter(ChainWriter);

impl QuotaWriter {
    /// Begins at the position of `w` and writes at most `bytes_max` bytes.
    pub fn new(w: &Writer<'_>, bytes_max: usize) -> Self {
        Self(ChainWriter::new(ALIGNMENT, w, bytes_max))
    }

    /// Appends an entry. Returns `false` without a change if it does not fit.
    pub fn push(&mut self, entry: &QuotaInformation, w: &mut Writer<'_>) -> bool {
        self.0.push(w, |w| entry.encode(w))
    }
}

/// Parses the entries of a reply.
pub fn entries(bytes: &[u8]) -> impl Iterator<Item = Result<QuotaInformation, Malformed>> {
    chain::entries(ALIGNMENT, bytes).map(|entry| {
        let entry = entry?.get(4..).ok_or(SHORT)?;
        QuotaInformation::decode(&mut Reader::new(entry))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_has_a_list_or_a_start() {
        let list = QueryQuota {
            return_single: false,
            restart_scan: true,
            sids: vec![Sid::unix_user(7), Sid::unix_user(8)],
            start: None,
        };
        let bytes = list.to_bytes();
        assert_eq!(bytes[..16], [0, 1, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..26], [24, 0, 0, 0, 16, 0, 0, 0, 1, 2]);
        assert_eq!(QueryQuota::from_bytes(&bytes), Ok(list.clone()));
        let start = QueryQuota { sids: Vec::new(), start: Some(Sid::unix_user(7)), ..list };
        assert_eq!(QueryQuota::from_bytes(&start.to_bytes()), Ok(start.clone()));
        assert!(QueryQuota::from_bytes(&bytes[..20]).is_err());
        let mut past = start.to_bytes();
        past[12] = 1;
        assert!(QueryQuota::from_bytes(&past).is_err());
    }

    #[test]
    fn entries_are_aligned_and_end_with_the_sid() {
        let entry = |uid| QuotaInformation {
            change_time: FileTime(0),
            quota_used: 4096,
            quota_threshold: -1,
            quota_limit: 1 << 20,
            sid: Sid::unix_user(uid),
        };
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        let mut writer = QuotaWriter::new(&w, 112);
        assert!([7, 8].into_iter().all(|uid| writer.push(&entry(uid), &mut w)));
        assert!(!writer.push(&entry(9), &mut w));
        assert_eq!(out[..8], [56, 0, 0, 0, 16, 0, 0, 0]);
        assert_eq!(out[16..24], 4096_i64.to_le_bytes());
        let read: Result<Vec<_>, _> = entries(&out).collect();
        assert_eq!(read, Ok(vec![entry(7), entry(8)]));
    }
}
