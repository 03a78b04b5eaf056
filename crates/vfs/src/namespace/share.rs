//! Settings of an export as a share.

/// The settings of a share. Protocols that know no shares, as NFS, do not look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareSettings {
    pub encryption: bool,
    /// Whether messages must be signed, or encrypted instead.
    pub signing: bool,
    /// Whether messages are compressed, with clients that can.
    pub compression: bool,
    /// Whether it is listed among the shares. It can be used by its name in any case.
    pub browsable: bool,
    /// Whether listings leave out objects that the caller may not read.
    pub access_based_enumeration: bool,
    /// Whether opens survive a restart of the server.
    pub continuously_available: bool,
    pub oplocks: bool,
    /// Whether clients can watch directories.
    pub change_notify: bool,
    /// The mode of a new file if the client sends none.
    pub create_mode: u32,
    /// The mode of a new directory if the client sends none.
    pub directory_mode: u32,
}

impl Default for ShareSettings {
    fn default() -> Self {
        Self {
            encryption: false,
            signing: true,
            compression: false,
            browsable: true,
            access_based_enumeration: false,
            continuously_available: false,
            oplocks: true,
            change_notify: true,
            create_mode: 0o644,
            directory_mode: 0o755,
        }
    }
}

impl ShareSettings {
    /// Whether protection by `other` also satisfies these settings.
    pub fn is_met_by(&self, other: &Self) -> bool {
        self.encryption <= other.encryption && self.signing <= (other.signing || other.encryption)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_share_requires_no_signing() {
        let (signed, plain) =
            (ShareSettings::default(), ShareSettings { signing: false, ..ShareSettings::default() });
        let sealed = ShareSettings { encryption: true, ..plain };
        assert!(plain.is_met_by(&signed) && signed.is_met_by(&sealed) && plain.is_met_by(&sealed));
        assert!(!signed.is_met_by(&plain) && !sealed.is_met_by(&signed));
    }
}
