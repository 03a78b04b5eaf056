//! Names of the directories and files of volumes.

use vfs::VolumeId;

/// The name of a volume's directory: 16 hexadecimal digits.
pub fn volume_name(id: VolumeId) -> String {
    format!("{:016x}", id.0)
}

/// The volume of a name; `None` if it is not the name of a volume.
pub fn volume_of(name: &[u8]) -> Option<VolumeId> {
    let text = std::str::from_utf8(name).ok()?;
    let id = VolumeId(u64::from_str_radix(text, 16).ok()?);
    (volume_name(id) == text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_name_matches_id() {
        for id in [0, 7, u64::MAX].map(VolumeId) {
            assert_eq!(volume_of(volume_name(id).as_bytes()), Some(id));
        }
        for other in ["demo", "7", "00000000000000FF", "+000000000000007", "00000000000000000"] {
            assert_eq!(volume_of(other.as_bytes()), None, "{other:?}");
        }
    }
}
