//! The Server Service, MS-SRVS: shares and server information.

use super::ndr::{NdrReader, NdrWriter};
use super::{Fault, Syntax, Win32Error};
use crate::sets::{bit_set, open_set};
use crate::{Guid, Malformed, Utf16};

/// `srvsvc`, MS-SRVS §1.9.
pub const INTERFACE: Syntax =
    Syntax { uuid: Guid::new(0x4b32_4fc8, 0x1670, 0x01d3, 0x1278_5a47_bf6e_e188), version: 3 };

open_set! {
    /// `shi1_type`, MS-SRVS §2.2.2.4, without `STYPE_SPECIAL`.
    pub struct ShareKind: u32 {
        DISKTREE = 0,
        PRINTQ = 1,
        DEVICE = 2,
        IPC = 3,
    }
}

bit_set! {
    /// Modifiers of a share's type, MS-SRVS §2.2.2.4.
    pub struct ShareModifiers: u32 {
        TEMPORARY = 0x4000_0000,
        SPECIAL = 0x8000_0000,
    }

    /// `sv101_version_type`, MS-SRVS §2.2.2.7.
    pub struct ServerType: u32 {
        WORKSTATION = 0x1,
        SERVER = 0x2,
        SERVER_UNIX = 0x800,
        NT = 0x1000,
        SERVER_NT = 0x8000,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// `NetrShareEnum` (MS-SRVS §3.1.4.8) and `NetrShareEnumSticky` (§3.1.4.9).
    ShareEnum { level: u32, preferred_maximum_length: u32, resume_handle: Option<u32> },
    /// `NetrShareGetInfo`, MS-SRVS §3.1.4.10.
    ShareGetInfo { net_name: Utf16<'a>, level: u32 },
    /// `NetrServerGetInfo`, MS-SRVS §3.1.4.17.
    ServerGetInfo { level: u32 },
}

impl<'a> Call<'a> {
    pub fn decode(opnum: u16, stub: &'a [u8]) -> Result<Self, Fault> {
        let decoded = match opnum {
            15 | 36 => share_enum(stub),
            16 => share_get_info(stub),
            21 => server_get_info(stub),
            _ => return Err(Fault::OP_RNG_ERROR),
        };
        decoded.map_err(|_| Fault::NDR)
    }
}

fn share_enum(stub: &[u8]) -> Result<Call<'_>, Malformed> {
    let mut r = NdrReader::new(stub);
    r.optional_string()?;
    let (level, tag) = (r.u32()?, r.u32()?);
    if level != tag || ![0, 1, 2, 501, 502, 503].contains(&level) {
        return Err(Malformed("a level without a container"));
    }
    empty_container(&mut r)?;
    let preferred_maximum_length = r.u32()?;
    let resume_handle = if r.pointer()? { Some(r.u32()?) } else { None };
    Ok(Call::ShareEnum { level, preferred_maximum_length, resume_handle })
}

/// Reads a container of a request, which must be empty.
fn empty_container(r: &mut NdrReader<'_>) -> Result<(), Malformed> {
    if r.pointer()? {
        let entries = r.u32()?;
        let room = if r.pointer()? { r.u32()? } else { 0 };
        if (entries, room) != (0, 0) {
            return Err(Malformed("a container that is not empty"));
        }
    }
    Ok(())
}

fn share_get_info(stub: &[u8]) -> Result<Call<'_>, Malformed> {
    let mut r = NdrReader::new(stub);
    r.optional_string()?;
    Ok(Call::ShareGetInfo { net_name: r.string()?, level: r.u32()? })
}

fn server_get_info(stub: &[u8]) -> Result<Call<'_>, Malformed> {
    let mut r = NdrReader::new(stub);
    r.optional_string()?;
    Ok(Call::ServerGetInfo { level: r.u32()? })
}

/// A share, the union of all levels (MS-SRVS §2.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share<'a> {
    pub net_name: &'a str,
    pub kind: ShareKind,
    pub modifiers: ShareModifiers,
    pub remark: &'a str,
    /// The path on the server.
    pub path: &'a str,
    pub max_uses: u32,
    pub current_uses: u32,
    /// `shi1005_flags`, the flags of TREE_CONNECT.
    pub flags: crate::tree::ShareFlags,
}

impl Share<'_> {
    fn has_level(level: u32) -> bool {
        [0, 1, 2, 501, 502].contains(&level)
    }

    fn write(&self, level: u32, w: &mut NdrWriter<'_>) {
        w.pointer();
        if level == 0 {
            return;
        }
        w.u32(self.kind.0 | self.modifiers.0);
        w.pointer();
        match level {
            501 => w.u32(self.flags.0),
            2 | 502 => {
                // Permissions of share-level security, which is not supported.
                [0, self.max_uses, self.current_uses].into_iter().for_each(|number| w.u32(number));
                w.pointer();
                w.null();
                if level == 502 {
                    // No security descriptor.
                    w.u32(0);
                    w.null();
                }
            }
            _ => (),
        }
    }

    fn write_referents(&self, level: u32, w: &mut NdrWriter<'_>) {
        w.string(self.net_name);
        if level != 0 {
            w.string(self.remark);
        }
        if [2, 502].contains(&level) {
            w.string(self.path);
        }
    }
}

/// The results of `NetrShareEnum`: all of `shares` in one reply, whatever size the client prefers.
pub fn share_enum_results(level: u32, resume_handle: Option<u32>, shares: &[Share<'_>]) -> Vec<u8> {
    NdrWriter::stub(|w| {
        w.u32(level);
        w.u32(level);
        let has_level = Share::has_level(level);
        if has_level {
            w.pointer();
            w.count(shares.len());
            w.pointer();
            w.count(shares.len());
            shares.iter().for_each(|share| share.write(level, w));
            shares.iter().for_each(|share| share.write_referents(level, w));
        } else {
            w.null();
        }
        w.count(if has_level { shares.len() } else { 0 });
        match resume_handle {
            Some(_) => {
                w.pointer();
                w.u32(0);
            }
            None => w.null(),
        }
        w.u32(if has_level { Win32Error::SUCCESS } else { Win32Error::INVALID_LEVEL }.0);
    })
}

pub fn share_get_info_results(level: u32, share: Result<&Share<'_>, Win32Error>) -> Vec<u8> {
    let has_level = level == 1005 || Share::has_level(level);
    let share = if has_level { share } else { Err(Win32Error::INVALID_LEVEL) };
    NdrWriter::stub(|w| {
        w.u32(level);
        match share {
            Ok(share) if level == 1005 => {
                w.pointer();
                w.u32(share.flags.0);
            }
            Ok(share) => {
                w.pointer();
                share.write(level, w);
                share.write_referents(level, w);
            }
            Err(_) => w.null(),
        }
        w.u32(share.err().unwrap_or(Win32Error::SUCCESS).0);
    })
}

/// The server information of levels 100 to 102 (MS-SRVS §2.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server<'a> {
    pub name: &'a str,
    pub version_major: u32,
    pub version_minor: u32,
    pub server_type: ServerType,
    pub comment: &'a str,
    /// `sv102_users`: the maximum number of sessions.
    pub users: u32,
}

/// `PLATFORM_ID_NT`, MS-SRVS §2.2.2.6.
pub(super) const PLATFORM_NT: u32 = 500;
/// Minutes until an idle session ends: never (`SV_NODISC`).
const NO_DISCONNECT: u32 = u32::MAX;

pub fn server_get_info_results(level: u32, server: &Server<'_>) -> Vec<u8> {
    let has_level = (100..=102).contains(&level);
    NdrWriter::stub(|w| {
        w.u32(level);
        if !has_level {
            w.null();
            return w.u32(Win32Error::INVALID_LEVEL.0);
        }
        w.pointer();
        w.u32(PLATFORM_NT);
        w.pointer();
        if level > 100 {
            let numbers = [server.version_major, server.version_minor, server.server_type.0];
            numbers.into_iter().for_each(|number| w.u32(number));
            w.pointer();
        }
        if level == 102 {
            // Not hidden, announced every four minutes without random delay; no licenses.
            let numbers = [server.users, NO_DISCONNECT, 0, 240, 0, 0];
            numbers.into_iter().for_each(|number| w.u32(number));
            w.pointer();
        }
        w.string(server.name);
        if level > 100 {
            w.string(server.comment);
        }
        if level == 102 {
            w.string("");
        }
        w.u32(Win32Error::SUCCESS.0);
    })
}
