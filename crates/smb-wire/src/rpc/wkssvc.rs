//! The Workstation Service, MS-WKST: the host's name.

use super::ndr::{NdrReader, NdrWriter};
use super::srvsvc::PLATFORM_NT;
use super::{Fault, Syntax, Win32Error};
use crate::Guid;

/// `wkssvc`, MS-WKST §1.9.
pub const INTERFACE: Syntax =
    Syntax { uuid: Guid::new(0x6bff_d098, 0xa112, 0x3610, 0x9833_46c3_f87e_345a), version: 1 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `NetrWkstaGetInfo`, MS-WKST §3.2.4.1.
    WkstaGetInfo { level: u32 },
}

impl Call {
    pub fn decode(opnum: u16, stub: &[u8]) -> Result<Self, Fault> {
        if opnum != 0 {
            return Err(Fault::OP_RNG_ERROR);
        }
        let mut r = NdrReader::new(stub);
        let level = r.optional_string().and_then(|_| r.u32());
        level.map(|level| Self::WkstaGetInfo { level }).map_err(|_| Fault::NDR)
    }
}

/// The host information of levels 100 to 102 (MS-WKST §2.2.5.1 to §2.2.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workstation<'a> {
    pub computer_name: &'a str,
    /// The domain or workgroup.
    pub lan_group: &'a str,
    pub version_major: u32,
    pub version_minor: u32,
    pub logged_on_users: u32,
}

pub fn wksta_get_info_results(level: u32, workstation: &Workstation<'_>) -> Vec<u8> {
    NdrWriter::stub(|w| {
        w.u32(level);
        if !(100..=102).contains(&level) {
            w.null();
            return w.u32(Win32Error::INVALID_LEVEL.0);
        }
        w.pointer();
        w.u32(PLATFORM_NT);
        w.pointer();
        w.pointer();
        w.u32(workstation.version_major);
        w.u32(workstation.version_minor);
        if level > 100 {
            w.pointer();
        }
        if level == 102 {
            w.u32(workstation.logged_on_users);
        }
        w.string(workstation.computer_name);
        w.string(workstation.lan_group);
        if level > 100 {
            w.string("");
        }
        w.u32(Win32Error::SUCCESS.0);
    })
}
