//! What the calls are in each version: the numbers that they are counted under, and their names.

use super::call::Call;
use super::{smb, v3, v4};
use crate::target::Version;

impl Call<'_> {
    /// Under which number it is counted.
    pub(super) fn number(&self, version: Version) -> u32 {
        match version {
            Version::V3 => v3::procedure(self).0,
            Version::V41 | Version::V42 => v4::operation(self).0,
            Version::Smb(_) => smb::command(self).0.into(),
        }
    }

    /// Its procedure, operation or request by name.
    pub(super) fn name(&self, version: Version) -> String {
        match version {
            Version::V3 => format!("{:?}", v3::procedure(self)),
            Version::V41 | Version::V42 => format!("{:?}", v4::operation(self)),
            Version::Smb(_) => format!("{:?}", smb::command(self)),
        }
    }
}
