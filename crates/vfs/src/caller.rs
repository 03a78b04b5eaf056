//! Who is asking.

/// The most supplementary groups a caller carries (AUTH_SYS has room for 16; Kerberos and directory look-ups give more).
pub const GROUPS_MAX: usize = 32;

/// The number that is no user and no group: chown(2), setfsuid(2) and their like take it as "leave it as it is".
pub const INVALID_ID: u32 = u32::MAX;

/// The identity a call acts with, after squashing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Whether the export refuses this caller every change.
    pub read_only: bool,
    group_count: u8,
    groups: [u32; GROUPS_MAX],
}

impl Caller {
    /// A caller. Supplementary groups past [`GROUPS_MAX`] are dropped, which can only take rights away, and so is
    /// [`INVALID_ID`]. User and primary group are taken as they are: [`crate::ExportRule::caller`] replaces those.
    #[inline]
    pub fn new(uid: u32, gid: u32, supplementary: impl IntoIterator<Item = u32>) -> Self {
        let mut caller = Self { uid, gid, read_only: false, group_count: 0, groups: [0; GROUPS_MAX] };
        let supplementary = supplementary.into_iter().filter(|&group| group != INVALID_ID);
        for (slot, group) in caller.groups.iter_mut().zip(supplementary) {
            *slot = group;
            caller.group_count += 1;
        }
        caller
    }

    /// The supplementary groups.
    #[inline]
    pub fn groups(&self) -> &[u32] {
        &self.groups[..usize::from(self.group_count)]
    }

    /// This caller with `new` for every group `old`.
    #[inline]
    #[must_use]
    pub fn with_group_replaced(mut self, old: u32, new: u32) -> Self {
        let count = usize::from(self.group_count);
        for group in self.groups[..count].iter_mut().chain([&mut self.gid]) {
            if *group == old {
                *group = new;
            }
        }
        self
    }

    /// Whether `gid` is one of the caller's groups.
    #[inline]
    pub fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups().contains(&gid)
    }

    /// Whether mode bits do not bind this caller.
    #[inline]
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }
}
