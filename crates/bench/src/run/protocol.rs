//! The match between a target's protocol and a scenario's.

use report::result::TargetFacts;
use report::scenario::{Protocol, Scenario, Series, Work};

use crate::error::Error;

/// Refuses unsupported protocols before any measurement.
pub(super) fn check(scenario: &Scenario, target: &TargetFacts) -> Result<(), Error> {
    for series in &scenario.series {
        if let Some(wrong) = series.protocols.iter().find(|protocol| !speaks(target, **protocol)) {
            let (name, why) = (&series.name, reason(target, *wrong));
            return Err(Error::Plan(format!("series \"{name}\" is over {wrong}, and {why}")));
        }
        if target.smb.is_some()
            && let Some(what) = nfs_only_feature(series)
        {
            let (name, target) = (&series.name, &target.target);
            return Err(Error::Plan(format!(
                "series \"{name}\" {what}, which is of NFS alone, and {target} is a share; --series NAME runs others"
            )));
        }
    }
    Ok(())
}

/// The first feature of a series that the built-in SMB client lacks.
fn nfs_only_feature(series: &Series) -> Option<&'static str> {
    match series.work {
        // Over SMB an open returns the attributes.
        Work::OpenRead if !series.attribute_caches.is_empty() => {
            Some("is about attributes that mounts cache")
        }
        Work::OpenRead | Work::Transfers | Work::Metadata | Work::EdaBlend => None,
    }
}

/// The built-in client speaks NFSv3 and NFSv4.1 to an export, and SMB to a share. A mounted path speaks the
/// protocol of its mount.
fn speaks(target: &TargetFacts, protocol: Protocol) -> bool {
    let Some(mount) = &target.mount else { return target.smb.is_some() == (protocol == Protocol::Smb) };
    let version = mount.options.split(',').find_map(|option| option.strip_prefix("vers="));
    match protocol {
        Protocol::NfsV3 => mount.kind == "nfs" && version.is_none_or(|version| version == "3"),
        Protocol::NfsV41 => mount.kind == "nfs4" && version == Some("4.1"),
        Protocol::Smb => matches!(mount.kind.as_str(), "cifs" | "smb3"),
    }
}

fn reason(target: &TargetFacts, wanted: Protocol) -> String {
    let mount = match wanted {
        Protocol::NfsV3 => "with -o vers=3",
        Protocol::NfsV41 => "with -o vers=4.1",
        Protocol::Smb => "as a share (mount -t cifs)",
    };
    match &target.mount {
        Some(has) => {
            format!("{} is mounted as {} ({}); mount it {mount}", target.target, has.kind, has.options)
        }
        None => {
            let (kind, other) = match wanted {
                Protocol::Smb => ("an export of NFS", "smb://USER@HOST[:PORT]/SHARE"),
                Protocol::NfsV3 | Protocol::NfsV41 => ("a share of SMB", "nfs://HOST[:PORT]/EXPORT"),
            };
            format!("{} is {kind}; give {other}, or a directory where it is mounted {mount}", target.target)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::result::{MountFacts, SmbFacts};
    use report::scenario::by_name;

    fn checked(protocols: &[Protocol], mount: Option<(&str, &str)>) -> Option<String> {
        refused("sizing", "NFSv3", protocols, mount)
    }

    /// `spoken` is the protocol of the built-in client.
    fn refused(
        scenario: &str,
        spoken: &str,
        protocols: &[Protocol],
        mount: Option<(&str, &str)>,
    ) -> Option<String> {
        let mut scenario = by_name(scenario).unwrap();
        scenario.series.iter_mut().for_each(|series| series.protocols = protocols.to_vec());
        let mount = mount.map(|(kind, options)| MountFacts {
            kind: kind.to_owned(),
            options: options.to_owned(),
            ..MountFacts::default()
        });
        let (target, protocol) = ("/mnt/a".to_owned(), spoken.to_owned());
        let smb = spoken.starts_with("SMB").then(SmbFacts::default);
        let target = TargetFacts { target, protocol, smb, mount, ..TargetFacts::default() };
        check(&scenario, &target).err().map(|wrong| wrong.to_string())
    }

    #[test]
    fn unsupported_protocol_is_refused_with_alternative() {
        use Protocol::{NfsV3, NfsV41, Smb};
        assert_eq!(checked(&[], None), None);
        assert_eq!(checked(&[NfsV3], None), None);
        assert_eq!(checked(&[NfsV3], Some(("nfs", "rw,vers=3"))), None);
        assert_eq!(checked(&[NfsV41], Some(("nfs4", "rw,vers=4.1"))), None);
        assert_eq!(checked(&[Smb], Some(("cifs", "rw,vers=3.1.1"))), None);
        assert_eq!(checked(&[NfsV3, NfsV41], None), None);
        assert_eq!(refused("sizing", "NFSv4.2", &[NfsV41], None), None);
        let wrong = checked(&[NfsV3, Smb], None).unwrap();
        assert!(
            wrong.contains(
                "is over SMB, and /mnt/a is an export of NFS; give smb://USER@HOST[:PORT]/SHARE, or"
            ),
            "{wrong}"
        );
        assert!(wrong.ends_with("where it is mounted as a share (mount -t cifs)"), "{wrong}");
        assert_eq!(refused("eda-blend", "NFSv3", &[NfsV3, NfsV41], None), None);
        assert_eq!(refused("eda-blend", "NFSv4.2", &[], None), None);
        let wrong = checked(&[NfsV41], Some(("nfs4", "rw,vers=4.2"))).unwrap();
        assert!(wrong.contains("mounted as nfs4 (rw,vers=4.2); mount it with -o vers=4.1"), "{wrong}");
        assert!(checked(&[Smb], Some(("nfs", "vers=3"))).is_some());
        for protocols in [&[][..], &[Smb]] {
            assert_eq!(refused("sizing", "SMB 3.1.1", protocols, None), None);
            assert_eq!(refused("metadata", "SMB 3.1.1", protocols, None), None);
        }
        let wrong = refused("sizing", "SMB 3.1.1", &[NfsV3], None).unwrap();
        assert!(wrong.contains("/mnt/a is a share of SMB; give nfs://HOST[:PORT]/EXPORT, or"), "{wrong}");
        assert_eq!(refused("eda-blend", "SMB 3.1.1", &[], None), None);
        let wrong = refused("mount-options", "SMB 3.1.1", &[], None).unwrap();
        assert!(wrong.contains("is about attributes that mounts cache, which is of NFS alone"), "{wrong}");
        assert!(checked(&[NfsV3], Some(("ext4", "rw"))).is_some());
    }
}
