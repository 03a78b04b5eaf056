//! `[ceph]` of the configuration: the CephFS of volumes.

use serde::Deserialize;
use std::path::PathBuf;

/// `[ceph]`
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CephConfig {
    /// Configuration of the Ceph cluster: addresses of the monitors, and where the key is.
    pub(crate) conf: PathBuf,
    /// Ceph user of the service, without `client.`.
    pub(crate) user: String,
    /// Name of the CephFS; without the key, the only one.
    pub(crate) file_system: Option<String>,
    /// Directory of the CephFS below which the volumes are. The service makes it if it is missing.
    pub(crate) directory: String,
    /// Name of this service among those that use the directory; without the key, the name of the host.
    pub(crate) gateway: Option<String>,
}

impl Default for CephConfig {
    fn default() -> Self {
        Self {
            conf: "/etc/ceph/ceph.conf".into(),
            user: "plimsoll".into(),
            file_system: None,
            directory: "/plimsoll".into(),
            gateway: None,
        }
    }
}

/// The longest name of a file in CephFS.
const NAME_BYTES_MAX: usize = 255;
const USER_ALLOWED: &str = "the name of a Ceph user without \"client.\", like plimsoll";
const FILE_SYSTEM_ALLOWED: &str = "the name of a CephFS, as \"ceph fs ls\" shows it";
const DIRECTORY_ALLOWED: &str = "an absolute path without \".\", \"..\" and empty parts, like /plimsoll";
const GATEWAY_ALLOWED: &str =
    "a name of 1 to 255 bytes without slashes and control characters, like gateway-1";

impl CephConfig {
    /// The JSON pointer of the first wrong value, and the fault.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        let is_user = |name: &str| is_name(name) && !name.starts_with("client.") && !name.contains(' ');
        let unless = |value: &str, is_right: bool, key, allowed| {
            (!is_right).then(|| (key, format!("is {value:?}; allowed: {allowed}")))
        };
        let of = |value: &Option<String>, key, allowed| {
            value.as_deref().and_then(|value| unless(value, is_name(value), key, allowed))
        };
        unless(&self.user, is_user(&self.user), "/ceph/user", USER_ALLOWED)
            .or_else(|| of(&self.file_system, "/ceph/file_system", FILE_SYSTEM_ALLOWED))
            .or_else(|| {
                unless(&self.directory, is_path(&self.directory), "/ceph/directory", DIRECTORY_ALLOWED)
            })
            .or_else(|| of(&self.gateway, "/ceph/gateway", GATEWAY_ALLOWED))
    }
}

/// Whether a text can be the name of a file.
fn is_name(text: &str) -> bool {
    let is_long = text.len() > NAME_BYTES_MAX;
    !is_long && !matches!(text, "" | "." | "..") && !text.contains(|c: char| c == '/' || c.is_control())
}

/// Whether a text is the root or a path of names from there.
fn is_path(text: &str) -> bool {
    text == "/" || text.strip_prefix('/').is_some_and(|path| path.split('/').all(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faulty_key(change: impl FnOnce(&mut CephConfig)) -> Option<&'static str> {
        let mut config = CephConfig::default();
        change(&mut config);
        config.fault().map(|(key, _)| key)
    }

    #[test]
    fn values_that_ceph_would_refuse_or_misread_are_faults() {
        assert_eq!(CephConfig::default().fault(), None);
        for user in ["client.plimsoll", "", "a b", "a\u{1}"] {
            assert_eq!(faulty_key(|config| config.user = user.into()), Some("/ceph/user"), "{user:?}");
        }
        let long = format!("/{}", "x".repeat(256));
        for path in ["plimsoll", "", "/a/", "//a", "/a//b", "/./a", "/a/..", "/a\nb", long.as_str()] {
            assert_eq!(
                faulty_key(|config| config.directory = path.into()),
                Some("/ceph/directory"),
                "{path:?}"
            );
        }
        for name in ["", "a/b", "..", "a\u{7f}", &long[1..]] {
            let key = faulty_key(|config| config.gateway = Some(name.into()));
            assert_eq!(key, Some("/ceph/gateway"), "{name:?}");
            assert!(faulty_key(|config| config.file_system = Some(name.into())).is_some());
        }
        for path in ["/", "/a", "/a/b.c/..."] {
            assert_eq!(faulty_key(|config| config.directory = path.into()), None, "{path:?}");
        }
    }
}
