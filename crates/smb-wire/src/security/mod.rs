//! Security descriptors, MS-DTYP §2.4: ownership and access rights of a file.

use std::fmt;

use crate::sets::{bit_set, open_set};
use crate::types::AccessMask;
use crate::{Decode, Encode, Malformed, Reader, Writer};

const SUB_AUTHORITIES_MAX: usize = 15;
/// Bytes of a [`Sid`] without sub-authorities.
const SID_FIXED: usize = 8;
/// Bytes of the longest [`Sid`].
const SID_MAX: usize = SID_FIXED + 4 * SUB_AUTHORITIES_MAX;

/// `SID`, MS-DTYP §2.4.2.2, as valid bytes on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sid {
    bytes: [u8; SID_MAX],
    length: u8,
}

impl Sid {
    /// Builds a SID. `None` if `authority` exceeds 48 bits or there are more than 15 sub-authorities.
    pub fn new(authority: u64, sub_authorities: &[u32]) -> Option<Self> {
        let count = u8::try_from(sub_authorities.len())
            .ok()
            .filter(|count| usize::from(*count) <= SUB_AUTHORITIES_MAX)?;
        let [0, 0, authority @ ..] = authority.to_be_bytes() else { return None };
        let mut bytes = [0; SID_MAX];
        bytes[..2].copy_from_slice(&[1, count]);
        bytes[2..SID_FIXED].copy_from_slice(&authority);
        for (bytes, number) in bytes[SID_FIXED..].as_chunks_mut().0.iter_mut().zip(sub_authorities) {
            *bytes = number.to_le_bytes();
        }
        Some(Self { bytes, length: 8 + 4 * count })
    }

    /// `S-1-22-1-uid`: a Unix user, as in Samba and Linux.
    pub fn unix_user(uid: u32) -> Self {
        Self::unix(1, uid)
    }

    /// `S-1-22-2-gid`: a Unix group.
    pub fn unix_group(gid: u32) -> Self {
        Self::unix(2, gid)
    }

    fn unix(kind: u32, id: u32) -> Self {
        let mut bytes = [0; SID_MAX];
        bytes[..SID_FIXED].copy_from_slice(&[1, 2, 0, 0, 0, 0, 0, 22]);
        bytes[SID_FIXED..16].copy_from_slice([kind.to_le_bytes(), id.to_le_bytes()].as_flattened());
        Self { bytes, length: 16 }
    }

    /// `S-1-0-0`.
    pub fn nobody() -> Self {
        let mut bytes = [0; SID_MAX];
        bytes[..2].copy_from_slice(&[1, 1]);
        Self { bytes, length: 12 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub fn authority(&self) -> u64 {
        let mut authority = [0; 8];
        authority[2..].copy_from_slice(&self.bytes[2..SID_FIXED]);
        u64::from_be_bytes(authority)
    }

    pub fn sub_authorities(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.as_bytes()[SID_FIXED..].as_chunks().0.iter().map(|number| u32::from_le_bytes(*number))
    }
}

/// Formats as `S-1-5-32-544` (MS-DTYP §2.4.2.1).
impl fmt::Debug for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S-1-{}", self.authority())?;
        self.sub_authorities().try_for_each(|number| write!(f, "-{number}"))
    }
}

impl Encode for Sid {
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(self.as_bytes());
    }
}

impl Decode<'_> for Sid {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let [revision, count, ..] = *r.rest() else { return Err(crate::reader::SHORT) };
        if revision != 1 || usize::from(count) > SUB_AUTHORITIES_MAX {
            return Err(Malformed("a SID with another revision, or too long"));
        }
        let length = 8 + 4 * count;
        let mut bytes = [0; SID_MAX];
        bytes[..usize::from(length)].copy_from_slice(r.bytes(usize::from(length))?);
        Ok(Self { bytes, length })
    }
}

open_set! {
    /// `AceType`, MS-DTYP §2.4.4.1.
    pub struct AceType: u8 {
        ACCESS_ALLOWED = 0x00,
        ACCESS_DENIED = 0x01,
        SYSTEM_AUDIT = 0x02,
        SYSTEM_ALARM = 0x03,
        ACCESS_ALLOWED_COMPOUND = 0x04,
        ACCESS_ALLOWED_OBJECT = 0x05,
        ACCESS_DENIED_OBJECT = 0x06,
        SYSTEM_AUDIT_OBJECT = 0x07,
        SYSTEM_ALARM_OBJECT = 0x08,
        ACCESS_ALLOWED_CALLBACK = 0x09,
        ACCESS_DENIED_CALLBACK = 0x0a,
        ACCESS_ALLOWED_CALLBACK_OBJECT = 0x0b,
        ACCESS_DENIED_CALLBACK_OBJECT = 0x0c,
        SYSTEM_AUDIT_CALLBACK = 0x0d,
        SYSTEM_ALARM_CALLBACK = 0x0e,
        SYSTEM_AUDIT_CALLBACK_OBJECT = 0x0f,
        SYSTEM_ALARM_CALLBACK_OBJECT = 0x10,
        SYSTEM_MANDATORY_LABEL = 0x11,
        SYSTEM_RESOURCE_ATTRIBUTE = 0x12,
        SYSTEM_SCOPED_POLICY_ID = 0x13,
    }
}

impl AceType {
    /// Whether entries of this type consist of a mask and a SID.
    const fn is_mask_and_sid(self) -> bool {
        matches!(
            self,
            Self::ACCESS_ALLOWED
                | Self::ACCESS_DENIED
                | Self::SYSTEM_AUDIT
                | Self::SYSTEM_MANDATORY_LABEL
                | Self::SYSTEM_SCOPED_POLICY_ID
        )
    }
}

bit_set! {
    /// `AceFlags`, MS-DTYP §2.4.4.1.
    pub struct AceFlags: u8 {
        OBJECT_INHERIT = 0x01,
        CONTAINER_INHERIT = 0x02,
        NO_PROPAGATE_INHERIT = 0x04,
        INHERIT_ONLY = 0x08,
        INHERITED = 0x10,
        SUCCESSFUL_ACCESS = 0x40,
        FAILED_ACCESS = 0x80,
    }

    /// `Control`, MS-DTYP §2.4.6.
    pub struct Control: u16 {
        OWNER_DEFAULTED = 0x0001,
        GROUP_DEFAULTED = 0x0002,
        DACL_PRESENT = 0x0004,
        DACL_DEFAULTED = 0x0008,
        SACL_PRESENT = 0x0010,
        SACL_DEFAULTED = 0x0020,
        DACL_TRUSTED = 0x0040,
        SERVER_SECURITY = 0x0080,
        DACL_COMPUTED_INHERITANCE_REQUIRED = 0x0100,
        SACL_COMPUTED_INHERITANCE_REQUIRED = 0x0200,
        DACL_AUTO_INHERITED = 0x0400,
        SACL_AUTO_INHERITED = 0x0800,
        DACL_PROTECTED = 0x1000,
        SACL_PROTECTED = 0x2000,
        RM_CONTROL_VALID = 0x4000,
        SELF_RELATIVE = 0x8000,
    }
}

/// The contents of an entry, by its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AceBody {
    /// Allowing, denying and auditing entries (MS-DTYP §2.4.4.2, §2.4.4.4, §2.4.4.10), labels (§2.4.4.13) and scoped
    /// policies (§2.4.4.16).
    Plain { mask: AccessMask, sid: Sid },
    /// Every other type, as its bytes.
    Other(Vec<u8>),
}

/// `ACE`, MS-DTYP §2.4.4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ace {
    ace_type: AceType,
    flags: AceFlags,
    body: AceBody,
}

const ACE_HEADER_SIZE: usize = 4;
/// Bytes of the shortest entry: every type has a mask and a SID.
const ACE_SIZE_MIN: usize = ACE_HEADER_SIZE + 4 + SID_FIXED;
const ACL_HEADER_SIZE: usize = 8;

impl Ace {
    pub const fn allow(flags: AceFlags, mask: AccessMask, sid: Sid) -> Self {
        Self { ace_type: AceType::ACCESS_ALLOWED, flags, body: AceBody::Plain { mask, sid } }
    }

    pub const fn deny(flags: AceFlags, mask: AccessMask, sid: Sid) -> Self {
        Self { ace_type: AceType::ACCESS_DENIED, flags, body: AceBody::Plain { mask, sid } }
    }

    /// Replaces the flags, for inheritance.
    pub fn with_flags(self, flags: AceFlags) -> Self {
        Self { flags, ..self }
    }

    pub const fn ace_type(&self) -> AceType {
        self.ace_type
    }

    pub const fn flags(&self) -> AceFlags {
        self.flags
    }

    pub const fn body(&self) -> &AceBody {
        &self.body
    }

    fn size(&self) -> usize {
        ACE_HEADER_SIZE
            + match &self.body {
                AceBody::Plain { sid, .. } => 4 + sid.as_bytes().len(),
                AceBody::Other(bytes) => bytes.len(),
            }
    }
}

impl Encode for Ace {
    fn encode(&self, w: &mut Writer<'_>) {
        self.ace_type.encode(w);
        self.flags.encode(w);
        w.length::<u16>(self.size());
        match &self.body {
            AceBody::Plain { mask, sid } => {
                mask.encode(w);
                sid.encode(w);
            }
            AceBody::Other(bytes) => w.bytes(bytes),
        }
    }
}

/// Ignores bytes behind the SID of a plain entry.
impl Decode<'_> for Ace {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let ace_type = AceType::decode(r)?;
        let flags = Decode::decode(r)?;
        let size = usize::from(u16::decode(r)?);
        if !size.is_multiple_of(4) || size < ACE_SIZE_MIN {
            return Err(Malformed("AceSize is not a multiple of 4, or too small"));
        }
        let body = r.bytes(size - ACE_HEADER_SIZE)?;
        let body = if ace_type.is_mask_and_sid() {
            let mut r = Reader::new(body);
            AceBody::Plain { mask: Decode::decode(&mut r)?, sid: Decode::decode(&mut r)? }
        } else {
            AceBody::Other(body.to_vec())
        };
        Ok(Self { ace_type, flags, body })
    }
}

/// `ACL`, MS-DTYP §2.4.5: entries that fit in 64 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl(Vec<Ace>);

impl Acl {
    pub const SIZE_MAX: usize = 0xffff;

    /// `None` if the entries are longer than [`Self::SIZE_MAX`].
    pub fn new(aces: Vec<Ace>) -> Option<Self> {
        let list = Self(aces);
        (list.size() <= Self::SIZE_MAX).then_some(list)
    }

    pub fn retain(&mut self, stays: impl FnMut(&Ace) -> bool) {
        self.0.retain(stays);
    }

    pub fn aces(&self) -> &[Ace] {
        &self.0
    }

    fn size(&self) -> usize {
        ACL_HEADER_SIZE + self.0.iter().map(Ace::size).sum::<usize>()
    }

    /// `ACL_REVISION_DS` if an entry concerns an object, else `ACL_REVISION`.
    fn revision(&self) -> u8 {
        let is_object = |ace: &Ace| [5, 6, 7, 8, 0xb, 0xc, 0xf, 0x10].contains(&ace.ace_type.0);
        if self.0.iter().any(is_object) { 4 } else { 2 }
    }
}

impl Encode for Acl {
    fn encode(&self, w: &mut Writer<'_>) {
        w.bytes(&[self.revision(), 0]);
        w.length::<u16>(self.size());
        w.length::<u16>(self.0.len());
        w.zeros(2);
        self.0.iter().for_each(|ace| ace.encode(w));
    }
}

impl Decode<'_> for Acl {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        if ![2, 4].contains(&u8::decode(r)?) {
            return Err(Malformed("an ACL with another revision"));
        }
        r.skip(1)?;
        let size = usize::from(u16::decode(r)?);
        let count = u16::decode(r)?;
        r.skip(2)?;
        let entries =
            size.checked_sub(ACL_HEADER_SIZE).ok_or(Malformed("AclSize is smaller than the header"))?;
        let mut entries = Reader::new(r.bytes(entries)?);
        crate::decode_list(&mut entries, usize::from(count)).map(Self)
    }
}

/// `SECURITY_DESCRIPTOR`, MS-DTYP §2.4.6, in its self-relative form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecurityDescriptor {
    /// Encoding always sets `SELF_RELATIVE` and the bits of the present lists.
    pub control: Control,
    pub owner: Option<Sid>,
    pub group: Option<Sid>,
    /// `None` with `SACL_PRESENT`: the list is removed.
    pub sacl: Option<Acl>,
    /// `None` with `DACL_PRESENT`: a null list, which allows everything.
    pub dacl: Option<Acl>,
}

impl SecurityDescriptor {
    /// Bytes of the longest descriptor: two lists, two SIDs, the fixed part.
    pub const SIZE_MAX: usize = 2 * (Acl::SIZE_MAX + 1) + 2 * SID_MAX + DESCRIPTOR_FIXED;
}

const DESCRIPTOR_FIXED: usize = 20;

impl Encode for SecurityDescriptor {
    fn encode(&self, w: &mut Writer<'_>) {
        let sacl = if self.sacl.is_some() { Control::SACL_PRESENT } else { Control::empty() };
        let dacl = if self.dacl.is_some() { Control::DACL_PRESENT } else { Control::empty() };
        let w = &mut w.nested();
        w.bytes(&[1, 0]);
        (self.control | Control::SELF_RELATIVE | sacl | dacl).encode(w);
        w.zeros(16);
        // In the order of Windows.
        write_part(w, 12, &self.sacl);
        write_part(w, 16, &self.dacl);
        write_part(w, 4, &self.owner);
        write_part(w, 8, &self.group);
    }
}

/// Appends a part, and writes its offset at `offset_position`.
fn write_part(w: &mut Writer<'_>, offset_position: usize, part: &Option<impl Encode>) {
    if let Some(part) = part {
        w.align(4);
        w.patch::<u32>(offset_position, w.position());
        part.encode(w);
    }
}

/// Consumes all remaining bytes. The parts come in any order and may overlap: clients send owner and group as one.
impl Decode<'_> for SecurityDescriptor {
    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let bytes = r.rest();
        if u8::decode(r)? != 1 {
            return Err(Malformed("a security descriptor with another revision"));
        }
        r.skip(1)?;
        let control = Control::decode(r)?;
        if !control.contains(Control::SELF_RELATIVE) {
            return Err(Malformed("a security descriptor that is not self-relative"));
        }
        let [owner, group, sacl, dacl]: [u32; 4] =
            [Decode::decode(r)?, Decode::decode(r)?, Decode::decode(r)?, Decode::decode(r)?];
        r.skip(r.rest().len())?;
        let present = |flag, offset| if control.contains(flag) { offset } else { 0 };
        Ok(Self {
            control,
            owner: part_at(bytes, owner)?,
            group: part_at(bytes, group)?,
            sacl: part_at(bytes, present(Control::SACL_PRESENT, sacl))?,
            dacl: part_at(bytes, present(Control::DACL_PRESENT, dacl))?,
        })
    }
}

/// Decodes the part at `offset`; 0 means absent.
fn part_at<'a, T: Decode<'a>>(bytes: &'a [u8], offset: u32) -> Result<Option<T>, Malformed> {
    match usize::try_from(offset).unwrap_or(usize::MAX) {
        0 => Ok(None),
        offset @ DESCRIPTOR_FIXED.. => {
            let bytes = bytes.get(offset..).ok_or(crate::reader::SHORT)?;
            T::from_bytes(bytes).map(Some)
        }
        _ => Err(Malformed("a part of a security descriptor overlaps its fixed part")),
    }
}

#[cfg(test)]
mod tests;
