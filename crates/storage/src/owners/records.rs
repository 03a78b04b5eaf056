//! The bytes of a volume's rules and of its usage by owner. docs/formats/quotas.md draws them.

use vfs::{QuotaKind, QuotaLimits, QuotaOwner, QuotaRule, QuotaTarget, QuotaUse, SoftExcess, Usage};

const VERSION: u8 = 1;
const IN_USE: u8 = 0;
const CLEAN: u8 = 1;
/// The start of a table that is in use, and of one that is exact.
pub(super) const MARK_IN_USE: &[u8] = &[VERSION, IN_USE];
pub(super) const MARK_CLEAN: &[u8] = &[VERSION, CLEAN];
const HEADER_BYTES: usize = 24;
const ACCOUNT_BYTES: usize = 40;
const RULE_BYTES: usize = 48;

/// The usage by owner between two runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SavedAccounts {
    /// The usage is exact; otherwise it is the last known usage.
    pub(super) is_clean: bool,
    pub(super) accounts: Vec<SavedAccount>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SavedAccount {
    pub(super) owner: QuotaOwner,
    pub(super) used: Usage,
    pub(super) excess: SoftExcess,
}

impl From<&QuotaUse> for SavedAccount {
    fn from(of: &QuotaUse) -> Self {
        Self { owner: of.owner, used: of.used, excess: of.excess }
    }
}

/// FNV-1a of 64 bits.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A header, and records that it counts and checks.
fn encode(state: u8, records: &[u8], count: usize) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..2].copy_from_slice(&[VERSION, state]);
    bytes[8..16].copy_from_slice(&(count as u64).to_be_bytes());
    bytes[16..24].copy_from_slice(&checksum(records).to_be_bytes());
    bytes.extend_from_slice(records);
    bytes
}

/// The state, and the records.
fn decode<const BYTES: usize>(bytes: &[u8]) -> Option<(u8, &[[u8; BYTES]])> {
    let (header, records) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let ([VERSION, state @ (IN_USE | CLEAN), 0, 0, 0, 0, 0, 0], numbers) = header.split_first_chunk::<8>()?
    else {
        return None;
    };
    let (&count, &sum) = (numbers.first_chunk::<8>()?, numbers.last_chunk::<8>()?);
    let (whole, rest) = records.as_chunks::<BYTES>();
    let is_whole = rest.is_empty() && u64::from_be_bytes(count) == whole.len() as u64;
    (is_whole && checksum(records) == u64::from_be_bytes(sum)).then_some((*state, whole))
}

fn put(record: &mut Vec<u8>, kind: QuotaKind, flags: u8, id: u32, numbers: &[u64]) {
    record.extend_from_slice(&[matches!(kind, QuotaKind::Group).into(), flags, 0, 0]);
    record.extend_from_slice(&id.to_be_bytes());
    numbers.iter().for_each(|number| record.extend_from_slice(&number.to_be_bytes()));
}

/// The kind, the flags, the id and the numbers of a record.
fn take<const NUMBERS: usize>(record: &[u8]) -> Option<(QuotaKind, u8, u32, [u64; NUMBERS])> {
    let ([kind @ 0..=1, flags, 0, 0], rest) = record.split_first_chunk::<4>()? else { return None };
    let (id, numbers) = rest.split_first_chunk::<4>()?;
    let kind = if *kind == 0 { QuotaKind::User } else { QuotaKind::Group };
    let numbers: Vec<_> = numbers.as_chunks::<8>().0.iter().map(|bytes| u64::from_be_bytes(*bytes)).collect();
    Some((kind, *flags, u32::from_be_bytes(*id), numbers.try_into().ok()?))
}

/// The bytes of a table that is in use.
pub(super) fn encode_accounts(accounts: &[SavedAccount]) -> Vec<u8> {
    let mut records = Vec::with_capacity(accounts.len() * ACCOUNT_BYTES);
    for SavedAccount { owner, used, excess } in accounts {
        let [bytes_since, files_since] =
            [excess.bytes_since, excess.files_since].map(|since| since.unwrap_or(0));
        let numbers = [used.bytes, used.files, bytes_since, files_since];
        put(&mut records, owner.kind, 0, owner.id, &numbers);
    }
    encode(IN_USE, &records, accounts.len())
}

pub(super) fn decode_accounts(bytes: &[u8]) -> Option<SavedAccounts> {
    let (state, records) = decode::<ACCOUNT_BYTES>(bytes)?;
    let account = |record: &[u8; ACCOUNT_BYTES]| {
        let (kind, 0, id, [bytes, files, bytes_since, files_since]) = take(record)? else { return None };
        let [bytes_since, files_since] =
            [bytes_since, files_since].map(|since| Some(since).filter(|&at| at > 0));
        let excess = SoftExcess { bytes_since, files_since };
        Some(SavedAccount { owner: QuotaOwner { kind, id }, used: Usage { bytes, files }, excess })
    };
    let accounts = records.iter().map(account).collect::<Option<_>>()?;
    Some(SavedAccounts { is_clean: state == CLEAN, accounts })
}

/// The flag of a rule for one user or group.
const HAS_ID: u8 = 1;

pub(super) fn encode_rules(rules: &[QuotaRule]) -> Vec<u8> {
    let mut records = Vec::with_capacity(rules.len() * RULE_BYTES);
    for QuotaRule { target, limits } in rules {
        let numbers = [limits.bytes, limits.files, limits.soft_bytes, limits.soft_files, limits.grace_s];
        let given = numbers.iter().enumerate().map(|(at, number)| u8::from(number.is_some()) << (at + 1));
        let flags = given.sum::<u8>() | if target.id.is_some() { HAS_ID } else { 0 };
        put(
            &mut records,
            target.kind,
            flags,
            target.id.unwrap_or(0),
            &numbers.map(|number| number.unwrap_or(0)),
        );
    }
    encode(CLEAN, &records, rules.len())
}

pub(super) fn decode_rules(bytes: &[u8]) -> Option<Vec<QuotaRule>> {
    let (_, records) = decode::<RULE_BYTES>(bytes)?;
    let rule = |record: &[u8; RULE_BYTES]| {
        let (kind, flags, id, numbers) = take::<5>(record)?;
        let limit = |at: usize| (flags >> (at + 1) & 1 == 1).then_some(numbers[at]);
        let limits = QuotaLimits {
            bytes: limit(0),
            files: limit(1),
            soft_bytes: limit(2),
            soft_files: limit(3),
            grace_s: limit(4),
        };
        let target = QuotaTarget { kind, id: (flags & HAS_ID == HAS_ID).then_some(id) };
        Some(QuotaRule { target, limits })
    };
    records.iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_bytes_match_format() {
        let account = SavedAccount {
            owner: QuotaOwner::group(0x0102_0304),
            used: Usage { bytes: 0x1000, files: 2 },
            excess: SoftExcess { bytes_since: Some(0x6a00_0000), files_since: None },
        };
        let mut bytes = encode_accounts(&[account]);
        bytes[..2].copy_from_slice(MARK_CLEAN);
        assert_eq!(bytes[..16], [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[24..40], [1, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 16, 0]);
        assert_eq!(bytes[48..], [[0, 0, 0, 0, 0x6a, 0, 0, 0], [0; 8]].concat());
        let saved = SavedAccounts { is_clean: true, accounts: vec![account] };
        assert_eq!(decode_accounts(&bytes), Some(saved));
        for at in [0, 2, 15, 16, 30, 63] {
            let mut bad = bytes.clone();
            bad[at] ^= 0x40;
            assert_eq!(decode_accounts(&bad), None, "byte {at}");
        }
        assert_eq!(decode_accounts(&bytes[..63]), None);
        assert_eq!(decode_accounts(&encode_accounts(&[])), Some(SavedAccounts::default()));
    }

    #[test]
    fn rules_are_read_as_they_were_written() {
        let limits = QuotaLimits { bytes: Some(0), soft_files: Some(7), ..QuotaLimits::default() };
        let target = |id| QuotaTarget { kind: QuotaKind::User, id };
        let rules = [
            QuotaRule { target: target(None), limits },
            QuotaRule { target: target(Some(0)), limits: QuotaLimits { grace_s: Some(9), ..limits } },
        ];
        let bytes = encode_rules(&rules);
        assert_eq!(bytes[24..32], [0, 0b1_0010, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode_rules(&bytes), Some(rules.to_vec()));
        assert_eq!(decode_rules(&encode_rules(&[])), Some(Vec::new()));
        assert_eq!(decode_rules(&bytes[1..]), None);
    }
}
