//! The number of a volume.

/// A volume's number. It must not change while clients hold handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeId(pub u64);
