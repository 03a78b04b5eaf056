//! The next steps after `plimsoll setup`.

use super::FirstUser;
use super::questions::{Answers, Service, Tls};
use crate::mounting::in_brackets;
use crate::shell::quoted;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;

pub(super) fn written(config: &Path, backup: Option<&Path>) -> String {
    let kept = backup.map(|backup| format!("; the earlier one is {}", backup.display())).unwrap_or_default();
    format!("The configuration is {}{kept}.\n", config.display())
}

/// The commands that follow.
pub(super) fn next(answers: &Answers, host: &str, runs: bool, user: &FirstUser, config: &Path) -> String {
    let serves = |service| answers.services.contains(&service);
    let mut text = "\nNext, on this machine:\n".to_owned();
    if !runs {
        let config = quoted(&config.to_string_lossy()).into_owned();
        _ = writeln!(text, "  plimsoll serve --config {config}");
    }
    if let FirstUser::Later(name) = user {
        _ = writeln!(text, "  plimsoll user create {}", quoted(name));
    }
    let protocols = match (serves(Service::Nfs), serves(Service::Smb)) {
        (true, true) => "smb,nfsv4.2",
        (false, true) => "smb",
        _ => "nfsv4.1,nfsv4.2",
    };
    let clients = network(host);
    text += "  plimsoll pool create files --level plimsoll/unlimited --size 100GiB\n";
    _ = writeln!(
        text,
        "  plimsoll volume create files --pool files --size 50GiB --protocols {protocols} --allow {clients}"
    );
    text += "and on clients:\n";
    let address = in_brackets(host);
    if serves(Service::Nfs) {
        let xprtsec = if answers.tls == Tls::None { "" } else { ",xprtsec=tls" };
        _ = writeln!(text, "  mount -t nfs -o vers=4.2{xprtsec} {address}:/files /mnt");
    }
    if serves(Service::Smb) {
        let (name, uid, gid) = match user {
            FirstUser::Exists(user) => (user.name.as_str(), user.uid.to_string(), user.gid.to_string()),
            FirstUser::Later(name) => (name.as_str(), "UID".to_owned(), "GID".to_owned()),
            FirstUser::None => ("USER", "UID".to_owned(), "GID".to_owned()),
        };
        let options = format!("vers=3.1.1,username={},uid={uid},gid={gid}", quoted(name));
        _ = writeln!(text, "  mount -t cifs -o {options} //{address}/files /mnt");
    }
    let ports = [(Service::Nfs, "2049/tcp (NFS)"), (Service::Smb, "445/tcp (SMB)")];
    let open: Vec<&str> =
        ports.iter().filter(|(service, _)| serves(*service)).map(|(_, port)| *port).collect();
    _ = writeln!(text, "A firewall must let these ports in: {}.", open.join(", "));
    text
}

/// The network of an address, as an example of a rule: clients in it may mount.
fn network(host: &str) -> String {
    match host.parse() {
        Ok(IpAddr::V4(ip)) if !ip.is_loopback() => {
            let [a, b, c, _] = ip.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        Ok(ip) => ip.to_string(),
        Err(_) => "10.1.0.0/16".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_real_address_and_the_chosen_protocols() {
        let answers = Answers {
            address: "0.0.0.0".parse().unwrap(),
            services: vec![Service::Nfs, Service::Smb],
            tls: Tls::Init,
            user: Some("alice".into()),
        };
        let text =
            next(&answers, "10.0.0.5", false, &FirstUser::Later("alice".into()), Path::new("/etc/p.toml"));
        for line in [
            "plimsoll serve --config /etc/p.toml",
            "plimsoll user create alice\n",
            "--protocols smb,nfsv4.2 --allow 10.0.0.0/24",
            "mount -t nfs -o vers=4.2,xprtsec=tls 10.0.0.5:/files /mnt",
            "mount -t cifs -o vers=3.1.1,username=alice,uid=UID,gid=GID //10.0.0.5/files /mnt",
            "2049/tcp (NFS), 445/tcp (SMB)",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let answers = Answers { services: vec![Service::Nfs], tls: Tls::None, user: None, ..answers };
        let text = next(&answers, "::1", true, &FirstUser::None, Path::new("/etc/p.toml"));
        assert!(
            text.contains("vers=4.2 [::1]:/files") && !text.contains("cifs") && !text.contains("serve"),
            "{text}"
        );
    }
}
