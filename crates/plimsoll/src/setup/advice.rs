//! The next steps after `plimsoll setup`.

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

/// The first user of SMB.
pub(super) struct FirstUser {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) exists: bool,
}

/// The service and its first user, on which the commands that follow depend.
pub(super) struct Next<'a> {
    /// The name or address of this machine for clients.
    pub(super) host: String,
    /// Whether the service runs.
    pub(super) runs: bool,
    /// `None` without SMB.
    pub(super) user: Option<FirstUser>,
    pub(super) password_file: Option<&'a Path>,
    /// The configuration, if it is not the one that commands find by themselves.
    pub(super) config: Option<&'a Path>,
}

impl Next<'_> {
    /// The commands that follow, and how clients mount.
    pub(super) fn text(&self, answers: &Answers) -> String {
        let serves = |service| answers.services.contains(&service);
        let config = self.config.map_or_else(String::new, |path| format!(" --config {}", shown(path)));
        let mut text = "\nNext, on this machine:\n".to_owned();
        if !self.runs {
            _ = writeln!(text, "  plimsoll serve{config}");
            text += "and in another terminal:\n";
        }
        let user = self.user.as_ref();
        if let Some(FirstUser { name, uid, exists: false, .. }) = user {
            let file = self
                .password_file
                .map_or_else(String::new, |path| format!(" --password-file {}", shown(path)));
            _ = writeln!(text, "  plimsoll user create {} --uid {uid}{file}{config}", quoted(name));
        }
        let protocols = match (serves(Service::Nfs), serves(Service::Smb)) {
            (true, true) => "smb,nfsv4.2",
            (false, true) => "smb",
            _ => "nfsv4.1,nfsv4.2",
        };
        let clients = network(&self.host);
        let owner = user.map_or_else(String::new, |user| format!(" --owner {}:{}", user.uid, user.gid));
        _ = writeln!(text, "  plimsoll pool create files --level plimsoll/unlimited --size 100GiB{config}");
        _ = writeln!(
            text,
            "  plimsoll volume create files --pool files --size 50GiB --protocols {protocols}{owner} --allow {clients}{config}"
        );
        let has_tls = serves(Service::Nfs) && answers.tls != Tls::None;
        if has_tls {
            _ = writeln!(text, "  plimsoll volume access set files --allow {clients} --xprtsec tls{config}");
        }
        text += "and on clients:\n";
        let address = in_brackets(&self.host);
        if serves(Service::Nfs) {
            let xprtsec = if has_tls { ",xprtsec=tls" } else { "" };
            _ = writeln!(text, "  mount -t nfs -o vers=4.2{xprtsec} {address}:/files /mnt");
        }
        if let Some(FirstUser { name, uid, gid, .. }) = user {
            let options = format!("vers=3.1.1,username={},uid={uid},gid={gid}", quoted(name));
            _ = writeln!(text, "  mount -t cifs -o {options} //{address}/files /mnt");
        }
        if has_tls {
            text += "NFS clients need tlshd and the file ca.pem: see docs/how-to/tls.md in /usr/share/doc/plimsoll.\n";
        }
        let ports = [(Service::Nfs, "2049/tcp (NFS)"), (Service::Smb, "445/tcp (SMB)")];
        let open: Vec<&str> =
            ports.iter().filter(|(service, _)| serves(*service)).map(|(_, port)| *port).collect();
        _ = writeln!(text, "A firewall must let these ports in: {}.", open.join(", "));
        text
    }
}

fn shown(path: &Path) -> String {
    quoted(&path.to_string_lossy()).into_owned()
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
        let user = FirstUser { name: "alice".into(), uid: 1001, gid: 1001, exists: false };
        let (config, password_file) = (Path::new("/etc/p.toml"), Path::new("alice.secret"));
        let next = Next {
            host: "10.0.0.5".into(),
            runs: false,
            user: Some(user),
            password_file: Some(password_file),
            config: Some(config),
        };
        let text = next.text(&answers);
        for line in [
            "plimsoll serve --config /etc/p.toml",
            "plimsoll user create alice --uid 1001 --password-file alice.secret --config /etc/p.toml\n",
            "--protocols smb,nfsv4.2 --owner 1001:1001 --allow 10.0.0.0/24 --config /etc/p.toml\n",
            "volume access set files --allow 10.0.0.0/24 --xprtsec tls --config /etc/p.toml\n",
            "mount -t nfs -o vers=4.2,xprtsec=tls 10.0.0.5:/files /mnt",
            "mount -t cifs -o vers=3.1.1,username=alice,uid=1001,gid=1001 //10.0.0.5/files /mnt",
            "2049/tcp (NFS), 445/tcp (SMB)",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let answers = Answers { services: vec![Service::Nfs], tls: Tls::None, user: None, ..answers };
        let next = Next { host: "::1".into(), runs: true, user: None, password_file: None, config: None };
        let text = next.text(&answers);
        assert!(text.contains("vers=4.2 [::1]:/files"), "{text}");
        for other in ["cifs", "serve", "--owner", "--config", "--xprtsec", "tlshd"] {
            assert!(!text.contains(other), "{other}: {text}");
        }
    }
}
