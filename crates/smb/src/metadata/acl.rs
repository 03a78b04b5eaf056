//! ACLs on the wire and in volumes with NTFS rules (MS-DTYP §2.4.4, §2.4.5).

use crate::metadata::rights::without_generic;
use identity::{Id, Resolver, Sid as OurSid};
use smb_wire::security::{Ace, AceBody, AceFlags, AceType, Acl, Control, SecurityDescriptor, Sid};
use smb_wire::types::AccessMask;
use smb_wire::{Decode, NtStatus};
use vfs::acl::{self, ACL_ENTRIES_MAX, AclEntry, Effect, Inherit, Principal, Rights};

const SETTABLE_CONTROL: Control = Control(Control::DACL_PROTECTED.0 | Control::DACL_AUTO_INHERITED.0);

/// Encodes a file's ACL and its control bits. A null list has the bit `DACL_PRESENT` but no ACL.
pub(crate) fn to_wire(resolver: &dyn Resolver, list: &acl::Acl) -> Result<(Control, Option<Acl>), NtStatus> {
    let flags = [
        (list.is_protected, Control::DACL_PROTECTED),
        (list.is_auto_inherited, Control::DACL_AUTO_INHERITED),
    ];
    let control =
        flags.into_iter().filter(|(is, _)| *is).fold(Control::DACL_PRESENT, |all, (_, flag)| all | flag);
    let Some(entries) = &list.entries else { return Ok((control, None)) };
    let aces = entries.iter().map(|entry| {
        let (flags, mask, sid) =
            (AceFlags(entry.inherit.0), AccessMask(entry.rights.0), sid_of(resolver, &entry.who)?);
        Ok(match entry.effect {
            Effect::Allow => Ace::allow(flags, mask, sid),
            Effect::Deny => Ace::deny(flags, mask, sid),
        })
    });
    let acl = Acl::new(aces.collect::<Result<_, NtStatus>>()?).ok_or(NtStatus::INTERNAL_ERROR)?;
    Ok((control, Some(acl)))
}

/// Decodes the ACL of a descriptor. Refuses entries that neither allow nor deny: dropping an entry could drop a denial.
pub(crate) fn from_wire(
    resolver: &dyn Resolver,
    descriptor: &SecurityDescriptor,
) -> Result<acl::Acl, NtStatus> {
    let entries = match &descriptor.dacl {
        Some(list) if list.aces().len() > ACL_ENTRIES_MAX => return Err(NtStatus::INVALID_ACL),
        Some(list) => Some(
            list.aces().iter().map(|ace| entry_of(resolver, ace)).collect::<Result<Vec<_>, NtStatus>>()?,
        ),
        None => None,
    };
    // A client marks an inherited list with both bits (MS-DTYP §2.4.6).
    let hands_on = Control::DACL_AUTO_INHERITED | Control::DACL_COMPUTED_INHERITANCE_REQUIRED;
    Ok(acl::Acl {
        entries,
        is_protected: (descriptor.control & SETTABLE_CONTROL).contains(Control::DACL_PROTECTED),
        is_auto_inherited: descriptor.control.contains(hands_on),
    })
}

fn entry_of(resolver: &dyn Resolver, ace: &Ace) -> Result<AclEntry, NtStatus> {
    let effect = match ace.ace_type() {
        AceType::ACCESS_ALLOWED => Effect::Allow,
        AceType::ACCESS_DENIED => Effect::Deny,
        _ => return Err(NtStatus::NOT_SUPPORTED),
    };
    let AceBody::Plain { mask, sid } = ace.body() else { return Err(NtStatus::NOT_SUPPORTED) };
    Ok(AclEntry {
        effect,
        inherit: Inherit(ace.flags().0 & Inherit::ALL.0),
        rights: Rights(without_generic(*mask).0) & Rights::ALL,
        who: principal_of(resolver, sid)?,
    })
}

fn principal_of(resolver: &dyn Resolver, sid: &Sid) -> Result<Principal, NtStatus> {
    let (ours, _) = OurSid::from_bytes(sid.as_bytes()).ok_or(NtStatus::INVALID_SID)?;
    if let Some((_, principal)) = well_known().into_iter().find(|(sid, _)| *sid == ours) {
        return Ok(principal);
    }
    Ok(match resolver.id_of(&ours) {
        Some(Id::User(uid)) => Principal::User(uid),
        Some(Id::Group(gid)) => Principal::Group(gid),
        None => Principal::Stranger(sid.as_bytes().into()),
    })
}

fn sid_of(resolver: &dyn Resolver, who: &Principal) -> Result<Sid, NtStatus> {
    let bytes = match who {
        Principal::User(uid) => resolver.user_sid(*uid).to_bytes(),
        Principal::Group(gid) => resolver.group_sid(*gid).to_bytes(),
        Principal::Stranger(bytes) => bytes.to_vec(),
        sid => {
            let found = well_known().into_iter().find(|(_, principal)| principal == sid);
            found.ok_or(NtStatus::INTERNAL_ERROR)?.0.to_bytes()
        }
    };
    Sid::from_bytes(&bytes).map_err(|_| NtStatus::INTERNAL_ERROR)
}

fn well_known() -> [(OurSid, Principal); 6] {
    [
        (OurSid::everyone(), Principal::Everyone),
        (OurSid::authenticated_users(), Principal::Authenticated),
        (OurSid::creator_owner(), Principal::CreatorOwner),
        (OurSid::creator_group(), Principal::CreatorGroup),
        (OurSid::owner_rights(), Principal::OwnerRights),
        (OurSid::system(), Principal::System),
    ]
}
