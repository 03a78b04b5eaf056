//! Checks a Linux client and its NFS mount against the recommendations of the pages.

use crate::source::{A5, F4, OWN, PAGE_000, PAGE_001, PAGE_004};
use crate::{Provider, Source};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFacts {
    /// Kernel settings by name, those of `SETTINGS` that exist. A setting with several numbers counts by its
    /// last one.
    pub settings: BTreeMap<&'static str, u64>,
    pub interface: Option<Interface>,
    pub mount: Option<ClientMount>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    /// 10^6 bits a second, if reported: many virtual machines do not.
    pub megabits: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientMount {
    pub options: String,
    pub read_ahead_kib: Option<u64>,
    /// Device number, as in `0:52`, which identifies the read-ahead setting.
    pub device: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    pub provider: Option<Provider>,
    /// Whether the trees are mostly read, as in EDA: attributes may be cached for long.
    pub eda: bool,
}

/// One recommendation and the observed value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub what: String,
    pub state: CheckState,
    pub found: String,
    pub wanted: String,
    /// The fix, as root: a command, or mount options after `mount -o`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    pub why: &'static str,
    pub source: Source,
}

/// Whether a recommendation is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    Ok,
    #[serde(rename = "lacking")]
    NotMet,
    /// The value cannot be determined.
    Unknown,
    /// Not met; the load decides whether it should be.
    Depends,
}

struct Setting {
    name: &'static str,
    min: u64,
    value: &'static str,
    why: &'static str,
    source: Source,
}

const BUFFER: u64 = 16 << 20;
const RECEIVE: &str = "a connection can have more data on its way to this host. The page tunes the kernel and gives no values: 16 MiB is ours, four times the data of 16 Gbit/s in 2 ms";
const SEND: &str = "the same on the way to the server";

const SETTINGS: [Setting; 5] = [
    Setting { name: "net.core.rmem_max", min: BUFFER, value: "16777216", why: RECEIVE, source: PAGE_004 },
    Setting { name: "net.core.wmem_max", min: BUFFER, value: "16777216", why: SEND, source: PAGE_004 },
    Setting {
        name: "net.ipv4.tcp_rmem",
        min: BUFFER,
        value: "\"4096 131072 16777216\"",
        why: RECEIVE,
        source: PAGE_004,
    },
    Setting {
        name: "net.ipv4.tcp_wmem",
        min: BUFFER,
        value: "\"4096 65536 16777216\"",
        why: SEND,
        source: PAGE_004,
    },
    Setting {
        name: "sunrpc.tcp_max_slot_table_entries",
        min: 128,
        value: "128",
        why: "calls of a connection in flight. It holds for mounts that are made after it was set. The page tunes the kernel and gives no values: \
              128 is what Azure NetApp Files takes of a connection",
        source: PAGE_004,
    },
];

const MEGABITS: u64 = 16_000;
const ATTRIBUTES_S: &str = "600";
/// Read-ahead of Linux before 5.4, in calls of the maximum READ size.
const AHEAD: u64 = 15;

impl ClientFacts {
    pub fn setting_names() -> impl Iterator<Item = &'static str> {
        SETTINGS.iter().map(|setting| setting.name)
    }

    pub fn check(&self, options: CheckOptions) -> Vec<Check> {
        let mut checks: Vec<Check> = SETTINGS.iter().map(|setting| self.setting(setting)).collect();
        checks.push(self.check_network());
        if let Some(mount) = &self.mount {
            checks.extend(mount.check(options));
        }
        if options.provider.is_none_or(|provider| provider == Provider::Gcnv) {
            checks.push(Check {
                what: "ConnectionCountPerRssNetworkInterface".to_owned(),
                state: CheckState::Depends,
                found: "a setting of Windows".to_owned(),
                wanted: "16, on every Windows client over SMB".to_owned(),
                how: Some("Set-SmbClientConfiguration -ConnectionCountPerRssNetworkInterface 16".to_owned()),
                why: "SMB was measured with it; Linux cannot check it",
                source: PAGE_000,
            });
        }
        checks
    }

    fn setting(&self, setting: &Setting) -> Check {
        let found = self.settings.get(setting.name).copied();
        let state = match found {
            None => CheckState::Unknown,
            Some(found) if found >= setting.min => CheckState::Ok,
            Some(_) => CheckState::NotMet,
        };
        Check {
            what: setting.name.to_owned(),
            state,
            found: found.map_or_else(|| "not present".to_owned(), |found| found.to_string()),
            wanted: format!("{} or more", setting.min),
            how: Some(format!("sysctl -w {}={}", setting.name, setting.value)),
            why: setting.why,
            source: setting.source,
        }
    }

    fn check_network(&self) -> Check {
        let megabits = self.interface.as_ref().and_then(|interface| interface.megabits);
        let state = match megabits {
            None => CheckState::Unknown,
            Some(megabits) if megabits >= MEGABITS => CheckState::Ok,
            Some(_) => CheckState::NotMet,
        };
        let found = match (&self.interface, megabits) {
            (None, _) => "no interface".to_owned(),
            (Some(interface), None) => format!("{} does not report its speed", interface.name),
            (Some(interface), Some(megabits)) => {
                let (whole, rest) = (megabits / 1000, megabits % 1000 / 100);
                let rest = if rest == 0 { String::new() } else { format!(".{rest}") };
                format!("{} with {whole}{rest} Gbit/s", interface.name)
            }
        };
        Check {
            what: "network interface".to_owned(),
            state,
            found,
            wanted: "16 Gbit/s".to_owned(),
            how: Some("a machine like n1-standard-8 or larger".to_owned()),
            why: "about the read rate of such a client under a load that suits caches",
            source: PAGE_001,
        }
    }
}

impl ClientMount {
    fn option(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    fn has(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option == name)
    }

    fn check(&self, options: CheckOptions) -> Vec<Check> {
        let is_for = |provider| options.provider.is_none_or(|wanted| wanted == provider);
        let mut checks = vec![self.hard(), self.asynchronous(), self.timeo()];
        checks.extend(is_for(Provider::Filestore).then(|| self.retrans()));
        checks.extend(["rsize", "wsize"].map(|name| self.transfer(name, options.provider)));
        checks.extend(
            (options.provider != Some(Provider::Filestore)).then(|| self.connections(options.provider)),
        );
        if is_for(Provider::Anf) {
            checks.push(self.attributes(options.eda));
            checks.extend(options.eda.then(|| self.version()));
        }
        checks.push(self.read_ahead(options.provider));
        checks
    }

    fn hard(&self) -> Check {
        let soft = ["soft", "softerr"].into_iter().find(|name| self.has(name));
        option(
            "hard",
            soft.is_none(),
            soft.unwrap_or("hard"),
            "hard",
            "requests are repeated for ever; a soft mount reports errors to programs, and data is lost",
            PAGE_001,
        )
    }

    fn asynchronous(&self) -> Check {
        let is_sync = self.has("sync");
        option(
            "async",
            !is_sync,
            if is_sync { "sync" } else { "async" },
            "async",
            "a mount with sync sends each write before it goes on, which is considerably slower",
            PAGE_001,
        )
    }

    fn timeo(&self) -> Check {
        let found = self.option("timeo");
        let why = "600 tenths of a second before a request is repeated";
        option("timeo", found == Some("600"), found.unwrap_or("not listed"), "timeo=600", why, PAGE_001)
    }

    fn retrans(&self) -> Check {
        let found = self.option("retrans");
        let why = "tries before the client does more to recover";
        option("retrans", found == Some("3"), found.unwrap_or("not listed"), "retrans=3", why, PAGE_001)
    }

    fn transfer(&self, name: &'static str, provider: Option<Provider>) -> Check {
        let found = self.option(name);
        let large = (1 << 20, "the default, and best for throughput", PAGE_001);
        let quarter = (256 << 10, "did far better than other sizes under the EDA load", PAGE_004);
        let (bytes, why, source) = match provider {
            Some(Provider::Filestore) => large,
            Some(Provider::Plimsoll) => (1 << 20, "the largest that is served", OWN),
            Some(Provider::Gcnv) => (256 << 10, "the largest block that was measured in one piece", PAGE_000),
            Some(Provider::Anf) | None => quarter,
        };
        let bytes_found = found.and_then(|found| found.parse::<u64>().ok());
        // Pages differ: without a service, any page's recommendation is fine.
        let is_other = provider.is_none() && bytes_found == Some(large.0);
        let is_wanted = bytes_found == Some(bytes) || is_other;
        let mut check =
            option(name, is_wanted, found.unwrap_or("not listed"), &format!("{name}={bytes}"), why, source);
        if is_other {
            (check.wanted, check.why, check.source) = (format!("{name}={}", large.0), large.1, large.2);
        }
        check
    }

    fn connections(&self, provider: Option<Provider>) -> Check {
        let found = self.option("nconnect").unwrap_or("1");
        let count = found.parse::<u64>().unwrap_or(1);
        let (wanted, min, why, source) = match provider {
            Some(Provider::Gcnv) => (16, 16, "measured with it", PAGE_000),
            Some(Provider::Plimsoll) => {
                (4, 4, "more than one connection uses more than one of the server's threads", OWN)
            }
            _ => (
                16,
                8,
                "16 for a regular volume; the large one was measured with 8. Linux 5.3 or later, and set by the first mount of an address",
                PAGE_004,
            ),
        };
        option("nconnect", count >= min, found, &format!("nconnect={wanted}"), why, source)
    }

    fn attributes(&self, eda: bool) -> Check {
        let times = ["acregmin", "acregmax", "acdirmin", "acdirmax"];
        let is_long = self.option("actimeo") == Some(ATTRIBUTES_S)
            || times.iter().all(|time| self.option(time) == Some(ATTRIBUTES_S));
        let found = match (self.has("nocto"), is_long) {
            (true, true) => "nocto, actimeo=600",
            (true, false) => "nocto alone",
            (false, true) => "actimeo=600 alone",
            (false, false) => "neither",
        };
        let why = "attributes are believed for ten minutes, and an opening does not ask for them: for trees that are mostly read, as in EDA, \
                   and where clients need not see each other's changes at once";
        let is_followed = self.has("nocto") && is_long;
        let mut check = option("attribute cache", is_followed, found, "nocto,actimeo=600", why, PAGE_004);
        if check.state == CheckState::NotMet && !eda {
            check.state = CheckState::Depends;
        }
        check
    }

    fn version(&self) -> Check {
        let found = self.option("vers").unwrap_or("not listed");
        option("vers", found == "3", found, "vers=3", "does better than NFSv4.1 for EDA", PAGE_004)
    }

    fn read_ahead(&self, provider: Option<Provider>) -> Check {
        let read = self.option("rsize").and_then(|size| size.parse::<u64>().ok()).unwrap_or(1 << 20);
        let wanted = AHEAD.saturating_mul(read) >> 10;
        let state = match self.read_ahead_kib {
            None => CheckState::Unknown,
            Some(found) if found >= wanted => CheckState::Ok,
            Some(_) => CheckState::NotMet,
        };
        Check {
            what: "read-ahead of the mount".to_owned(),
            state,
            found: self.read_ahead_kib.map_or_else(|| "not known".to_owned(), |found| format!("{found} KiB")),
            wanted: format!("{wanted} KiB or more"),
            how: Some(format!("echo {wanted} > /sys/class/bdi/{}/read_ahead_kb", self.device)),
            why: "for sequential reads through the page cache. The page wants more than the kernel's own; 15 times rsize is what Linux \
                  took before 5.4",
            source: if provider == Some(Provider::Filestore) { F4 } else { A5 },
        }
    }
}

fn option(what: &str, is_ok: bool, found: &str, wanted: &str, why: &'static str, source: Source) -> Check {
    Check {
        what: what.to_owned(),
        state: if is_ok { CheckState::Ok } else { CheckState::NotMet },
        found: found.to_owned(),
        wanted: wanted.to_owned(),
        how: Some(format!("mount -o {wanted}")),
        why,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CheckState::{Depends, NotMet, Ok, Unknown};

    fn tuned() -> ClientFacts {
        let options = "rw,relatime,vers=3,rsize=262144,wsize=262144,namlen=255,acregmin=600,acregmax=600,acdirmin=600,\
                       acdirmax=600,hard,nocto,proto=tcp,nconnect=16,timeo=600,retrans=3,sec=sys";
        ClientFacts {
            settings: ClientFacts::setting_names().map(|name| (name, 16 << 20)).collect(),
            interface: Some(Interface { name: "eth0".to_owned(), megabits: Some(16_000) }),
            mount: Some(ClientMount {
                options: options.to_owned(),
                read_ahead_kib: Some(3840),
                device: "0:52".to_owned(),
            }),
        }
    }

    fn with(facts: &ClientFacts, from: &str, to: &str) -> ClientFacts {
        let mut facts = facts.clone();
        let mount = facts.mount.as_mut().unwrap();
        assert!(mount.options.contains(from), "{from}");
        mount.options = mount.options.replace(from, to);
        facts
    }

    fn state(facts: &ClientFacts, options: CheckOptions, what: &str) -> (CheckState, String, String) {
        let check = facts.check(options).into_iter().find(|check| check.what == what).unwrap();
        (check.state, check.found, format!("{} [{}]", check.wanted, check.source))
    }

    fn lacking(facts: &ClientFacts, options: CheckOptions) -> Vec<String> {
        let checks = facts.check(options).into_iter();
        checks.filter(|check| check.state == NotMet).map(|check| check.what).collect()
    }

    const ANY: CheckOptions = CheckOptions { provider: None, eda: false };
    const EDA: CheckOptions = CheckOptions { provider: Some(Provider::Anf), eda: true };

    #[test]
    fn tuned_client_passes_all_checks() {
        for options in [ANY, EDA, CheckOptions { eda: true, ..ANY }] {
            assert_eq!(lacking(&tuned(), options), <[String; 0]>::default());
        }
        let filestore = CheckOptions { provider: Some(Provider::Filestore), eda: false };
        assert_eq!(lacking(&tuned(), filestore), ["rsize", "wsize"], "its page wants 1 MiB");
        let large = with(&with(&tuned(), "rsize=262144", "rsize=1048576"), "wsize=262144", "wsize=1048576");
        assert_eq!(lacking(&large, filestore), ["read-ahead of the mount"], "of larger calls");
        assert_eq!(state(&large, ANY, "rsize").2, "rsize=1048576 [Filestore performance 2021 (Google)]");
        assert_eq!(lacking(&large, EDA)[..2], ["rsize", "wsize"]);
    }

    #[test]
    fn each_missing_setting_is_reported() {
        for (from, to, what, found, wanted) in [
            (",hard", ",soft", "hard", "soft", "hard [Filestore performance 2021 (Google)]"),
            (",hard", ",softerr", "hard", "softerr", "hard [Filestore performance 2021 (Google)]"),
            ("rw,", "rw,sync,", "async", "sync", "async [Filestore performance 2021 (Google)]"),
            ("timeo=600", "timeo=50", "timeo", "50", "timeo=600 [Filestore performance 2021 (Google)]"),
            ("retrans=3", "retrans=2", "retrans", "2", "retrans=3 [Filestore performance 2021 (Google)]"),
            ("rsize=262144", "rsize=65536", "rsize", "65536", "rsize=262144 [ANF for EDA (Microsoft)]"),
            ("wsize=262144", "wsize=65536", "wsize", "65536", "wsize=262144 [ANF for EDA (Microsoft)]"),
            (",nconnect=16", "", "nconnect", "1", "nconnect=16 [ANF for EDA (Microsoft)]"),
        ] {
            let facts = with(&tuned(), from, to);
            assert_eq!(lacking(&facts, ANY), [what]);
            assert_eq!(state(&facts, ANY, what), (NotMet, found.to_owned(), wanted.to_owned()));
        }
        let facts = with(&tuned(), "vers=3", "vers=4.1");
        assert_eq!((lacking(&facts, EDA), lacking(&facts, ANY).len()), (vec!["vers".to_owned()], 0));
        for (from, to, found) in [
            (",nocto", "", "actimeo=600 alone"),
            ("acdirmax=600", "acdirmax=60", "nocto alone"),
            ("acregmin=600,acregmax=600,acdirmin=600,acdirmax=600,hard,nocto", "hard", "neither"),
        ] {
            let facts = with(&tuned(), from, to);
            let of = |options| state(&facts, options, "attribute cache");
            let wanted = "nocto,actimeo=600 [ANF for EDA (Microsoft)]".to_owned();
            assert_eq!(of(ANY), (Depends, found.to_owned(), wanted.clone()), "for what is mostly read only");
            assert_eq!(of(EDA), (NotMet, found.to_owned(), wanted));
        }
    }

    #[test]
    fn host_is_checked_without_mount() {
        let facts = ClientFacts { mount: None, ..tuned() };
        assert!(facts.check(ANY).iter().all(|check| matches!(check.state, Ok | Depends)));
        let stock =
            ClientFacts { settings: [("net.core.rmem_max", 212_992)].into(), ..ClientFacts::default() };
        let of = |what| state(&stock, ANY, what);
        let wanted = "16777216 or more [ANF for EDA (Microsoft)]".to_owned();
        assert_eq!(of("net.core.rmem_max"), (NotMet, "212992".to_owned(), wanted));
        assert_eq!(of("sunrpc.tcp_max_slot_table_entries").0, Unknown, "before the first mount");
        assert_eq!(of("network interface").0, Unknown);
        let slow = |megabits| ClientFacts {
            interface: Some(Interface { name: "eth0".to_owned(), megabits }),
            ..ClientFacts::default()
        };
        let of = |megabits| state(&slow(megabits), ANY, "network interface");
        assert_eq!(of(Some(2_500)).1, "eth0 with 2.5 Gbit/s");
        assert_eq!((of(Some(15_999)).0, of(Some(100_000)).0, of(None).0), (NotMet, Ok, Unknown));
        let windows = state(&slow(None), ANY, "ConnectionCountPerRssNetworkInterface");
        assert_eq!((windows.0, windows.2.contains("[GCNV benchmarks (Google)]")), (Depends, true));
        assert!(slow(None).check(EDA).iter().all(|check| !check.what.contains("Rss")));
    }

    #[test]
    fn check_names_command_that_fixes_it() {
        let mut facts = tuned();
        facts.mount.as_mut().unwrap().read_ahead_kib = Some(128);
        let checks = facts.check(ANY);
        let how = |what: &str| checks.iter().find(|check| check.what == what).unwrap().how.clone().unwrap();
        assert_eq!(how("read-ahead of the mount"), "echo 3840 > /sys/class/bdi/0:52/read_ahead_kb");
        assert_eq!(how("net.ipv4.tcp_rmem"), "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 16777216\"");
        assert_eq!(how("nconnect"), "mount -o nconnect=16");
    }
}
